"""Rows to messages: the encoders of the formats, and the parts of a message."""
