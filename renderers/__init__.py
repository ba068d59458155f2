"""Meshes into views: reading mesh files, drawing them, and the processes that do so safely."""
