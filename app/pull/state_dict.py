"""Weights as torch wrote them before its archives, read without torch.

Such a file is a row of pickles (a number that names the format, its version, the machine, the tensors, the
keys of their storages), and then the storages. The unpickler knows the names that a state dict has and
nothing else, so nothing of the file is run.
"""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from app.pull.published_files import PullError

Weights: TypeAlias = Mapping[str, np.ndarray]
FORMAT = 0x1950A86A20F9469CFC6C
NUMBERS: Mapping[str, np.dtype[Any]] = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}
# What other files lead to
NO_STATE = (AttributeError, EOFError, IndexError, KeyError, TypeError, ValueError, pickle.UnpicklingError)
COUNT = np.dtype("<i8")  # of the numbers of a storage, before them


@dataclass
class _Storage:
    """Numbers that tensors are views of; they come after all tensors."""

    kind: np.dtype[Any]
    count: int
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage, in numbers from its start."""

    storage: _Storage
    start: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    def read(self) -> np.ndarray:
        """The tensor itself, once its storage is filled."""
        numbers = self.storage.numbers
        last = self.start + sum(
            (length - 1) * step for length, step in zip(self.shape, self.steps, strict=True)
        )
        if min(self.start, *self.steps, 0) < 0 or last >= len(numbers):
            raise ValueError("a tensor lies outside of its storage")
        steps = [step * numbers.itemsize for step in self.steps]
        return np.array(as_strided(numbers[self.start :], self.shape, steps))


class _StateUnpickler(pickle.Unpickler):
    """Knows ordered dictionaries, tensors and two kinds of storages."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Callable[..., Any] | str:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, start, shape, steps, *_: _Tensor(storage, start, shape, steps)
        if module == "torch" and name in NUMBERS:
            return name
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no state dict does")

    def persistent_load(self, stated: Any) -> _Storage:  # noqa: ANN401 (whatever the file says)
        _, kind, key, _, count, _ = stated
        return self.storages.setdefault(key, _Storage(NUMBERS[kind], count))


def read_state_dict(data: bytes) -> Weights:
    file = io.BytesIO(data)
    try:
        named, _, _ = (_StateUnpickler(file).load() for _ in range(3))
        if named != FORMAT:
            raise ValueError("it has another format")
        unpickler = _StateUnpickler(file)
        tensors = unpickler.load()
        for key in _StateUnpickler(file).load():
            storage = unpickler.storages[key]
            count = int(np.frombuffer(file.read(COUNT.itemsize), COUNT)[0])
            if count != storage.count:
                raise ValueError(f"a storage has {count} numbers where {storage.count} are stated")
            numbers = file.read(count * storage.kind.itemsize)
            storage.numbers = np.frombuffer(numbers, storage.kind)
        return {name: tensor.read() for name, tensor in tensors.items()}
    except NO_STATE as error:
        raise PullError(f"this is no state dict as torch wrote it before its archives: {error}") from error
