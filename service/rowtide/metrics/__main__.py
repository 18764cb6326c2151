"""``python -m rowtide.metrics > docs/reference/metrics.md``."""

from __future__ import annotations

import sys

from rowtide.metrics.reference import metrics_page

sys.stdout.write(metrics_page())
