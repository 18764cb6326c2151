"""Arithmetic, rounding, powers and angles."""
