"""Nexmark: the queries of an online auction, their generator, and the answers that they must give."""
