"""Feedback: verdicts on hits are recorded, and exported for training."""
