"""Aggregates in Python: of groups, over windows, and of groups that change."""
