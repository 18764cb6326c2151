"""Write and try a pipeline."""
