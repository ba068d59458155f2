"""Weights as torch wrote them before its archives are read as torch reads them; nothing else is."""

import io
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import pytest
import torch

from app.pull.published_files import PullError
from app.pull.state_dict import read_state_dict


def written(state: object, *, archive: bool = False) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=archive)
    return file.getvalue()


def state() -> "OrderedDict[str, torch.Tensor]":
    """Tensors of both kinds; one is a transposed view, and two share their numbers."""
    random = torch.Generator().manual_seed(0)
    kernel = torch.randn(3, 4, 5, 6, generator=random)
    tensors = {
        "kernel": kernel,
        "turned": kernel.permute(3, 2, 0, 1),
        "part": kernel[1:, 2],
        "count": torch.tensor(7),
        "steps": torch.arange(10),
        "empty": torch.zeros(0, 3),
    }
    return OrderedDict(tensors)


def test_tensors_are_those_that_torch_wrote() -> None:
    tensors = read_state_dict(written(state()))
    assert list(tensors) == list(state())
    for name, wanted in state().items():
        assert tensors[name].dtype == wanted.numpy().dtype
        assert np.array_equal(tensors[name], wanted.numpy()), name


class Hostile:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, ("was run",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        pickle.dumps(1),
        written(state(), archive=True),
        written(state())[:-40],
        written(OrderedDict(half=torch.zeros(3, dtype=torch.float16))),
        written(OrderedDict(evil=Hostile())),
    ],
    ids=["empty", "text", "number", "archive", "cut", "other numbers", "hostile"],
)
def test_other_files_are_refused_and_nothing_is_run(
    data: bytes, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PullError, match="no state dict"):
        read_state_dict(data)
    assert not os.listdir(tmp_path)
