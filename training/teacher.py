"""The teacher of the soft term: the encoders' own moving average."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch

from training.recipes.schema import TeacherSection as Options
from training.towers import TwoTowerModel


class Teacher:
    """t = m·t + (1 − m)·s after every step, s the student; BatchNorm's buffers are copied or averaged."""

    def __init__(self, model: TwoTowerModel, options: Options) -> None:
        self.model = deepcopy(model).eval().requires_grad_(False)
        self.options = options

    @torch.no_grad()
    def follow(self, model: TwoTowerModel) -> None:
        """Move towards the student's weights."""
        for weight, new in zip(self.model.parameters(), model.parameters(), strict=True):
            weight.lerp_(new, 1 - self.options.momentum)
        for buffer, seen in zip(self.model.buffers(), model.buffers(), strict=True):
            if self.options.buffers == "average" and buffer.is_floating_point():
                buffer.lerp_(seen, 1 - self.options.momentum)
            else:
                buffer.copy_(seen)

    @contextmanager
    def teaching(self) -> Iterator[TwoTowerModel]:
        """The teacher's model without gradient, in the recipe's mode."""
        with torch.no_grad():
            self.model.train(self.options.mode == "train")
            yield self.model
