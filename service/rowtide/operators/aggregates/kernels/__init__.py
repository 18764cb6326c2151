"""Compiled loops of aggregates."""
