"""Outcomes as JUnit XML, the format that continuous integration reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from rowtide.testing.session import ScenarioOutcome, Verdict


def write_junit(file: Path, outcomes: Sequence[ScenarioOutcome]) -> None:
    """Write one test case for each outcome.

    Raises:
      OSError: if the file cannot be written.
    """
    suite = ElementTree.Element(
        "testsuite",
        name="rowtide test",
        tests=str(len(outcomes)),
        failures=str(_count(outcomes, Verdict.FAILED)),
        errors=str(_count(outcomes, Verdict.UNREADABLE)),
        skipped=str(_count(outcomes, Verdict.SKIPPED)),
        time=f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=outcome.path.as_posix(),
            name=outcome.name,
            file=outcome.path.as_posix(),
            time=f"{outcome.seconds:.3f}",
        )
        if outcome.verdict is Verdict.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=outcome.skipped)
        if outcome.difference is not None:
            kind = "error" if outcome.verdict is Verdict.UNREADABLE else "failure"
            ElementTree.SubElement(case, kind, message=outcome.difference.message).text = _allowed(
                outcome.report()
            )
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    ElementTree.ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)


def _count(outcomes: Sequence[ScenarioOutcome], verdict: Verdict) -> int:
    return sum(outcome.verdict is verdict for outcome in outcomes)


def _allowed(text: str) -> str:
    """Remove control characters: XML does not allow them."""
    return "".join(char if char in "\n\t" or char >= " " else "\N{REPLACEMENT CHARACTER}" for char in text)
