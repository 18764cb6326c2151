"""A procedural model behind a socket: ``rowtide serve-model``."""
