"""Sums that are exact or checked, and the codes of their results."""
