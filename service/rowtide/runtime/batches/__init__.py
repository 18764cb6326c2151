"""Live processing on Spark: batches of messages by offsets, one commit each, without end."""
