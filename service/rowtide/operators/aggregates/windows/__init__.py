"""Aggregates of windows: one result for each row."""
