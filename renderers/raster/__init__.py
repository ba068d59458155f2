"""The software renderer in numpy: the reference that the numba kernels and OpenGL follow."""
