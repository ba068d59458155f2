"""Evaluation of a bundle or a checkpoint: protocols, classification, the report."""
