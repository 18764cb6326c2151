"""Joins of streams with streams and tables."""
