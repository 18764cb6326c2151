"""State that tasks keep in parts, in a store, so that none of it passes through the driver."""
