"""The loop of the running service, and its observers."""
