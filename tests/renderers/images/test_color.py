"""sRGB and linear light, and what lies behind a model."""

import numpy as np

from renderers.images.color import cut_out, to_linear, to_srgb


def test_srgb_bytes_survive_the_way_through_linear_light() -> None:
    every = np.arange(256, dtype=np.uint8)
    assert (to_srgb(to_linear(every)) == every).all()


def test_what_glows_before_nothing_is_not_lost() -> None:
    light = np.array([[0.5, 0.25, 0.0]], np.float32)
    red, green, blue, alpha = cut_out(light, np.array([0.5], np.float32))[0]
    assert (red, green, blue, alpha) == (255, int(to_srgb(np.array([0.5], np.float32))[0]), 0, 128)
