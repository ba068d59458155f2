"""Training, evaluating and exporting encoders."""
