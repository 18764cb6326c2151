"""The template of a project with a pipeline: ``rowtide init`` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rowtide.cli.template import filled

_HERE = Path(__file__).parent
_FILES = {
    "README.md": "readme.md",
    "pipeline.sql": "pipeline.sql",
    "config.toml": "config.toml",
    "tests/orders_per_minute.yaml": "scenario.yaml",
    "sample.jsonl": "sample.jsonl",
    "compose.yaml": "compose.yaml",
    ".github/workflows/test.yaml": "workflow.yaml",
}
"""Each file of a project, and its template."""


def project_files(name: str) -> Mapping[str, str]:
    """Return the text of each file of a project, by its path in the project's folder."""
    return {path: filled(_HERE / f"{template}.template", {"name": name}) for path, template in _FILES.items()}
