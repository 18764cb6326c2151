"""Runners of a plan beside the live service: Spark."""
