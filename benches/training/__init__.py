"""The benchmark of training: what a step costs, and each loss in it."""
