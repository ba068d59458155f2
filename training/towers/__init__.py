"""Encoders: pictures or tokens in, features out; and how each wants its pictures and texts."""

from training.towers.model import (
    TwoTowerModel,
    build_model,
    fetch_weights,
    image_spec,
    point_spec,
    text_spec,
    tokenizer_for,
)
from training.towers.small import MEAN, STD

__all__ = [
    "MEAN",
    "STD",
    "TwoTowerModel",
    "build_model",
    "fetch_weights",
    "image_spec",
    "point_spec",
    "text_spec",
    "tokenizer_for",
]
