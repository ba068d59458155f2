"""The benchmark of the render engines, on generated meshes."""
