# Images that no registry gives here, sourced by `docker/test`: the same programs from Debian and from Python's
# packages, under the names, users, paths and start-up habits that compose.yaml counts on.
ground="localhost/multifold-stand-in:$TAG"
milvus_release=2.3.5 # the newest server among Python's packages

put_together() { # a container; user; entry point; the name of the image
  buildah config --cmd '' "$1"
  buildah config --user "$2" --entrypoint "$3" "$1"
  buildah commit --quiet --rm --format docker "$1" "docker.io/$4:$TAG" >/dev/null
}

stand_in_ground() { # what they all stand on
  local made packages="postgresql-15 nginx-light gettext-base wget curl"
  made="$(buildah from --pull-never "$base")"
  buildah run --isolation chroot --network host "$made" -- sh -c \
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages" \
    >"$work/apt" 2>&1 || { cat "$work/apt"; fail "Debian's packages cannot be had"; }
  buildah commit --quiet --rm --format docker "$made" "$ground" >/dev/null
}

from_ground() { buildah from --pull-never "$ground"; }

stand_in_postgres() { # as the image `postgres`: user postgres, its data folder, its variables
  local made
  made="$(from_ground)"
  # podman lays a /run of its own over what compose.yaml mounts in /var/run, if that is a link
  buildah run --isolation chroot "$made" -- sh -c 'cd /var && rm run && install --directory --owner postgres --mode 700 lib/postgresql/data &&
    install --directory --owner postgres --mode 3777 run/postgresql'
  buildah copy --quiet --chmod 755 "$made" docker/testing/standin/postgres.start /usr/local/bin/ >/dev/null
  buildah config --env 'PATH=/usr/lib/postgresql/15/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "$made"
  put_together "$made" postgres '["postgres.start"]' library/postgres
}

stand_in_proxy() { # as the image `nginx-unprivileged`: user 101, templates filled in from the environment
  local made
  made="$(from_ground)"
  buildah copy --quiet --chmod 755 "$made" docker/testing/standin/proxy.start /usr/local/bin/ >/dev/null
  put_together "$made" 101 '["proxy.start"]' nginxinc/nginx-unprivileged
}

stand_in_bucket() { # as the image of SeaweedFS: user 1000, to whom /data belongs
  local made
  made="$(from_ground)"
  buildah run --isolation chroot "$made" -- sh -c 'useradd --uid 1000 seaweed && install --directory --owner seaweed /data'
  buildah copy --quiet --chmod 755 "$made" "$tools/weed" /usr/bin/weed >/dev/null
  put_together "$made" seaweed '["weed"]' chrislusf/seaweedfs
}

stand_in_milvus() { # as today's image of Milvus: user 999, to whom /milvus and /var/lib/milvus belong
  local made
  "$tools/pip" install --quiet --disable-pip-version-check "milvus==$milvus_release"
  "$tools/python" - "$work/milvus" <<'PYTHON'
import sys
from milvus import MilvusServerConfig, _initialize_data_files
config = MilvusServerConfig(data_dir=sys.argv[1])
config.resolve()
config.write_config()
_initialize_data_files(sys.argv[1])
PYTHON
  sed -i "s|$work/milvus/data|/var/lib/milvus|; s|$work/milvus|/milvus|" "$work"/milvus/configs/*
  made="$(from_ground)"
  buildah run --isolation chroot "$made" -- sh -c \
    'useradd --system --uid 999 milvus && install --directory --owner milvus /milvus /milvus/bin /milvus/configs /milvus/run /var/lib/milvus'
  buildah copy --quiet --chown 999 --chmod 755 "$made" "$work/milvus/bin" /milvus/bin/ >/dev/null
  buildah copy --quiet --chown 999 "$made" "$work/milvus/configs" /milvus/configs/ >/dev/null
  buildah config --workingdir /milvus --env LD_LIBRARY_PATH=/milvus/bin --env MILVUS_RUN_DIR=/milvus/run \
    --env PATH=/milvus/bin:/usr/local/bin:/usr/bin:/bin "$made"
  put_together "$made" milvus '["/usr/bin/env"]' milvusdb/milvus
}
