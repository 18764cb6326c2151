"""The dataflow: nodes and links that carry trays and bounds in one order; a pure step function."""
