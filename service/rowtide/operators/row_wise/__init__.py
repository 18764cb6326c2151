"""Operators that process one row at a time."""
