"""Operators that look at one row at a time."""
