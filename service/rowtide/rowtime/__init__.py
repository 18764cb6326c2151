"""Rowtime, bounds and lateness: laws 2 and 3 of the architecture."""
