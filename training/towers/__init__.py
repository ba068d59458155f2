"""Encoders: pictures or tokens in, features out; and how each wants its pictures and texts."""

from training.towers.model import Model, build_model
from training.towers.reading import image_spec, text_spec, tokenizer_for
from training.towers.small import MEAN, STD

__all__ = ["MEAN", "STD", "Model", "build_model", "image_spec", "text_spec", "tokenizer_for"]
