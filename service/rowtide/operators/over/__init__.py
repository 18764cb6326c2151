"""Windows of OVER, compiled."""
