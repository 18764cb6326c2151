"""HTTP: health, readiness, metrics."""
