"""Pictures, meshes and other originals by the hash of their bytes, in a folder or a bucket."""
