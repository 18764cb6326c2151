"""Operators that put rows in order."""
