"""Queries over a running pipeline: each in a process of its own."""
