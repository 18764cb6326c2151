"""Backfill with Spark."""
