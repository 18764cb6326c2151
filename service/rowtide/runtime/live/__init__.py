"""The loop of the running service and what listens to it."""
