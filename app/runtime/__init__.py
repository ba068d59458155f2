"""The service on one event loop: runtimes of collections, and long jobs."""
