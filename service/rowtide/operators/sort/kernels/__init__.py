"""Compiled loops of the sort operators."""
