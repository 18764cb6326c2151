"""Queries over a running pipeline, each in a separate process."""
