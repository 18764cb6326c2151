"""Nodes of tables and of their changes."""
