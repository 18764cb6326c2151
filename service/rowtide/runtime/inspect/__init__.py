"""Answers about a pipeline: why, why not, status, state, positions."""
