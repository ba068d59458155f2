"""Encoders: pictures or tokens in, features out; and how each wants its pictures and texts."""

from training.towers.model import TwoTowerModel, build_model
from training.towers.small import MEAN, STD
from training.towers.specs import image_spec, text_spec, tokenizer_for

__all__ = ["MEAN", "STD", "TwoTowerModel", "build_model", "image_spec", "text_spec", "tokenizer_for"]
