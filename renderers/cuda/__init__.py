"""The software renderer in torch: the same algorithm on a GPU, batched over views and models.

Pixels are those of `renderers.software` but for the last bit of a few powers and logarithms. No other file
imports this folder: torch is heavy, and serving does without.
"""

from renderers.cuda.engine import CudaRenderer

__all__ = ["CudaRenderer"]
