"""A server for a procedural model: ``rowtide serve-model``."""
