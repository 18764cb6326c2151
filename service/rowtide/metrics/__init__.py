"""Every metric, declared once: name, unit, meaning, labels.

``Metrics`` is what the runtime counts into and the web serves; ``reference``
writes docs/reference/metrics.md from the same declarations. This package
imports nothing of ours, so every layer may count.
"""

from rowtide.metrics.accounts import AccountCounts
from rowtide.metrics.metrics import Declaration, Metrics

__all__ = ["AccountCounts", "Declaration", "Metrics"]
