"""A reader of texts that are seen in pictures, such as on signs: the package rapidocr, with its models."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from multifold.bundle.preprocess import decode

LONGEST_SIDE = 1600  # pixels; larger pictures are shrunk
SURE = 0.8  # the share of certainty from which a line counts as read
PACKAGE = "rapidocr"


class PackagedPictureReader:
    """Lines of text in pictures."""

    def __init__(self) -> None:
        from rapidocr import RapidOCR

        self.id = f"{PACKAGE}-{version(PACKAGE)}"
        one_thread = {"EngineConfig.onnxruntime.intra_op_num_threads": 1}
        self._read = RapidOCR(params={"Global.log_level": "critical", **one_thread})

    def read(self, picture: bytes) -> tuple[str, ...]:
        """The lines that are read with certainty, from the top to the bottom."""
        image = decode(picture)
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        found = self._read(np.asarray(image)[..., ::-1])  # it takes blue, green and red
        lines: Sequence[str] = getattr(found, "txts", None) or ()  # other kinds of answers have none
        scores: Sequence[float] = getattr(found, "scores", None) or ()
        return tuple(line for line, score in zip(lines, scores, strict=True) if score >= SURE)


@cache
def packaged_picture_reader() -> PackagedPictureReader | None:
    """The reader, if its package is installed."""
    try:
        version(PACKAGE)
    except PackageNotFoundError:
        return None
    return PackagedPictureReader()
