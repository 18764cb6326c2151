"""Runners of a plan other than the live service: Spark."""
