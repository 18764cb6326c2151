"""Look at a pipeline that runs, and change it."""
