"""Replicas of one pipeline: one leads, the others follow its commits and take over (docs/decisions/0016)."""
