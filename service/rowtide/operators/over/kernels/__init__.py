"""Compiled loops of windows."""
