"""CAST: every pair of types, and values as text."""
