"""Published ONNX towers become bundles, without torch.

catalogue     encoders we know, with licence, languages, size and pinned hashes
hub, download files of a repository: found, fetched, gone on with, verified
source        published files on this disk, and where they came from
layouts       the two ways in which towers are laid out
seeing, reading  how an encoder was taught to see and read, from its own configuration
graphs        its graphs inside ours: pixels and tokens in, features out
parity        ours answer as theirs do
making        all of it, as a bundle
"""
