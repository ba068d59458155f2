"""The software renderer compiled by numba: the same pixels, many times faster.

    compiling.py  how a function becomes a kernel, and where the machine code is kept
    packed.py     a model as flat arrays; the scene, which is where they lie in memory
    vectors.py    texture.py  surface.py  spans.py  layers.py  view.py   from three numbers to a picture

Every expression follows its numpy twin operation by operation, in the same precision, so pixels are equal
(tests/renderers/test_kernels.py). Kernels read flat memory, `x[3 * row + column]`, through bare pointers:
arrays would cost more than the drawing, in counted references and in time to compile.
"""
