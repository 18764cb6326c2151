"""Rows between stages: blocks that go through the shuffle of Spark."""
