"""Compiled loops of the changes of groups."""
