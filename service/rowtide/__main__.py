"""``python -m rowtide`` is ``rowtide``."""

from __future__ import annotations

from rowtide.app import main

main()
