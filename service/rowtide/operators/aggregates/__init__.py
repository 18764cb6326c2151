"""Aggregates: of groups, of windows and of changes."""
