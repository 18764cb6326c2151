"""Compiled loops of tables."""
