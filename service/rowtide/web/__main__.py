"""``python -m rowtide.web > docs/reference/http-api.md``."""

from __future__ import annotations

import sys

from rowtide.web.described import page

sys.stdout.write(page())
