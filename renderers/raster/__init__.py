"""The software renderer, compiled by numba: it needs no GPU, no display and no system package.

    compiling.py       how a function becomes a kernel, and where the machine code is kept
    scene.py           a model as flat arrays, and pointers to them
    renderer.py        a whole view: faces.py settles the samples, pixels.py lists what lies there,
                       shade.py gathers what it is like, light.py lights it in blocks
    texture_lookup.py  what a texture shows at a place

Visibility is settled at 2 by 2 samples a pixel, what lies there is shaded once, see-through faces are laid
over, and samples are averaged in linear light. See-through faces are cut-outs, which are there or not, and
glass, which dims what lies behind.

Kernels read flat memory, `x[3 * row + column]`, through bare pointers: arrays would cost more than the
drawing, in counted references and in time to compile. What runs for each fragment is inlined: a call would
pass the whole scene again.
"""
