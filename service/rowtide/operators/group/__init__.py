"""Groups of a window: their operators, and the aggregates that they keep."""
