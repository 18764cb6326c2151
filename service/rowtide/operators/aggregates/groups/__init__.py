"""Aggregates of groups that end."""
