"""Aggregates over changes: rows come and go."""
