"""One reader for each mesh format, and what they share; `mesh.load` lists them by extension."""
