"""The software renderer compiled by numba: the same pixels, many times faster.

    compiling.py  how a function becomes a kernel, and where the machine code is kept
    scene.py      a model as flat arrays, and pointers to them
    renderer.py   a whole view: faces.py settles the samples, pixels.py lists what lies there,
                  shade.py gathers what it is like, light.py lights it in blocks

Every expression follows the numpy renderer in `renderers/raster`, operation by operation and
in the same precision, so pixels are equal (tests/renderers/test_kernels.py). Kernels read flat memory, `x[3
* row + column]`, through bare pointers: arrays would cost more than the drawing, in counted references and
in time to compile. What runs for each fragment is inlined: a call would pass the whole scene again.
"""
