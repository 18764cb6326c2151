"""Settings: values that differ between machines (docs/reference/configuration.md)."""
