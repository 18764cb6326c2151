"""Hints for unknown names: the nearest existing name, or all of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """Return a hint with the candidate nearest to ``name``, or None if no candidate is similar."""
    folded: dict[str, str] = {}
    for candidate in sorted(candidates):
        folded.setdefault(candidate.upper(), candidate)
    near = get_close_matches(name.upper(), list(folded), n=1, cutoff=0.7)
    return f'Did you mean "{folded[near[0]]}"?' if near else None


SHOWN = 12
"""Maximum number of names in a hint. If there are more, the hint has only the nearest one."""


def did_you_mean_or_all(name: str, candidates: Iterable[str]) -> str | None:
    """Return a hint with the candidate nearest to ``name``; if none is similar, with all if they are few."""
    there = list(candidates)
    listed = f"Available: {', '.join(there)}." if 0 < len(there) <= SHOWN else None
    return did_you_mean(name, there) or listed
