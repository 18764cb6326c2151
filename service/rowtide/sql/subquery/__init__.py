"""Sub-queries."""
