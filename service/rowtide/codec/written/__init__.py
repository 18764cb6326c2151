"""Times and values as people write them in scenarios and on the command line."""
