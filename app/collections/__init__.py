"""Collections at work, without HTTP and event loop: service, names, confidence."""
