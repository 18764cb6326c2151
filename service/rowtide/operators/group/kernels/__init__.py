"""Compiled loops of groups."""
