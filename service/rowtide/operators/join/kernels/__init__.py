"""Compiled loops of joins."""
