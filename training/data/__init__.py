"""Data sets for training: furniture made here, data sets of others, views, features in bulk. No torch."""
