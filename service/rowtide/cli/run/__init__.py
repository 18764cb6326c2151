"""Run a pipeline: live, over history, on Spark; copy its topics."""
