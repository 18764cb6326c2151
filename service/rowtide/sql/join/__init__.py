"""FROM and joins."""
