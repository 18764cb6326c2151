"""The ordered union."""
