"""The furniture set: procedural 3D shapes whose facts and captions are true of them."""
