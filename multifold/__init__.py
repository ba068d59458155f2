"""Multifold finds things by any of their sides: the kernel that every room shares."""
