"""The command `multifold render`."""
