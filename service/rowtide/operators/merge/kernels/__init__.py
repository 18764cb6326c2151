"""Compiled loops of the merge."""
