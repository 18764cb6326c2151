"""Commands on a pipeline take the file before or behind the command's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app


@pytest.mark.parametrize(
    "order", [("list", "{file}"), ("{file}", "list"), ("--config", "{config}", "{file}", "list")]
)
def test_errors_are_listed_whatever_comes_first(tmp_path: Path, order: tuple[str, ...]) -> None:
    sql, config = tmp_path / "p.sql", tmp_path / "c.toml"
    sql.write_text("CREATE STREAM s (x INTEGER);")
    config.write_text(f'[checkpoint]\nurl = "sqlite:///{tmp_path}/c.db"\n')
    args = [each.format(file=sql, config=config) for each in order]
    if "--config" not in args:
        args += ["--config", str(config)]
    result = CliRunner().invoke(app, ["errors", *args])
    assert result.exit_code == 0, result.output
