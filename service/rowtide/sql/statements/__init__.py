"""Statements that define, change or drop objects."""
