"""Evaluation of a bundle or a checkpoint: protocols, calibration, classification, the report."""
