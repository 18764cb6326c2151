"""Conversion of bytes to columns and back, one format per module."""
