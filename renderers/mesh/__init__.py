"""Mesh files into validated models: loading, normals, the up axis, and the content hash."""
