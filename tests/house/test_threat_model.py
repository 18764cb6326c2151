"""The tests that docs/threat-model.md names exist."""

import ast
import re

from house.machine import ROOT

PAGE = (ROOT / "docs/threat-model.md").read_text()


def test_the_tests_that_the_threat_model_names_exist() -> None:
    files = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    known = {
        each.name
        for file in files
        for each in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(each, ast.FunctionDef)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert named - known == set()
