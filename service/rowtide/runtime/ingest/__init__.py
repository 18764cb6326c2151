"""From topics to the flow."""
