"""OVER, ranks and QUALIFY."""
