"""File formats: folders of pictures and meshes, text files, shards of features and tar shards."""
