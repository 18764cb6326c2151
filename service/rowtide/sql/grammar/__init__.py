"""Text to syntax."""
