"""Nodes of joins."""
