"""Write docs/reference/configuration.md: ``python -m rowtide.config``."""

from __future__ import annotations

import sys

from rowtide.config.page import configuration_page

sys.stdout.write(configuration_page())
