"""JSON messages to columns: the shape of the messages, the conversion of a field, one value by its rules."""
