"""Encoders at work: decoded pictures, drawn views, features and index vectors."""
