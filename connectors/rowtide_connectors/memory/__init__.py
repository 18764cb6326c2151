"""The memory connector."""
