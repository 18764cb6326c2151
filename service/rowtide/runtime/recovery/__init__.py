"""Start, recovery and replay."""
