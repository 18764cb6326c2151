"""Users' modules: loaded apart where two pipelines have one of a name, and distinguished by their text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowtide.expr.python import modules
from rowtide.expr.python.modules import code_of, module_of


@pytest.fixture(autouse=True)
def as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, empty in (("_folders", []), ("_apart", {}), ("_codes", {})):
        monkeypatch.setattr(modules, name, empty)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def folder(place: Path, **files: str) -> str:
    place.mkdir()
    for name, text in files.items():
        path = place / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    sys.path.append(str(place))
    return str(place)


def code(place: Path, **files: str) -> str:
    return code_of("shape", folder(place, **files))


def test_modules_of_one_name_beside_two_pipelines_are_two_with_what_they_import(tmp_path: Path) -> None:
    text = "import side\nfrom side import LENGTH\n\ndef area():\n    return side.LENGTH * LENGTH\n"
    first = folder(tmp_path / "a", shape=text, side="LENGTH = 2\n")
    second = folder(tmp_path / "b", shape=text, side="LENGTH = 3\n")
    assert [module_of("shape", each).area() for each in (first, second, first, second)] == [4, 9, 4, 9]
    assert module_of("shape", second) is module_of("shape", second)
    assert sys.modules["shape"] is module_of("shape", first)
    assert sys.modules["side"].LENGTH == 2


def test_a_module_that_is_in_the_other_folder_only_is_found_there(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", shape="import side\n", side="LENGTH = 2\n")
    second = folder(tmp_path / "b", shape="import side\n")
    assert module_of("shape", first).side.LENGTH == 2
    assert module_of("shape", second).side.LENGTH == 2
    assert module_of("shape", second) is not module_of("shape", first)


def test_a_module_that_fails_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", shape="SIDES = 4\n")
    second = folder(tmp_path / "b", shape="1 / 0\n")
    module_of("shape", first)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            module_of("shape", second)
    assert sys.modules["shape"].SIDES == 4


def test_a_library_below_a_folder_is_one_for_all(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", shape="import library\n")
    folder(tmp_path / "a" / "venv", library="class Kind: pass\n")
    second = folder(tmp_path / "b", shape="import library\n")
    assert module_of("shape", first).library is module_of("shape", second).library
    assert module_of("shape", first) is not module_of("shape", second)


def test_a_library_of_the_same_name_comes_first(tmp_path: Path) -> None:
    assert module_of("decimal", folder(tmp_path / "a", decimal="")) is sys.modules["decimal"]


ORIGINAL = 'SIDES = 4\n\n\ndef name():\n    return """a\n\n# b"""\n'


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        (ORIGINAL.replace("SIDES = 4", "SIDES = 4  # as before"), True),
        ("# On shapes.\n" + ORIGINAL.replace("\n\n\n", "\n"), True),
        (ORIGINAL.replace("4", "5"), False),
        (ORIGINAL.replace("# b", "# c"), False),
        (ORIGINAL.replace("a\n\n", "a\n"), False),
    ],
)
def test_only_comments_and_blank_lines_of_a_text_do_not_count(
    tmp_path: Path, changed: str, is_same: bool
) -> None:
    same = code(tmp_path / "a", shape=ORIGINAL) == code(tmp_path / "b", shape=changed)
    assert same == is_same


def test_what_a_module_imports_from_its_folder_counts_however_deep(tmp_path: Path) -> None:
    files = {
        "shape": "def lazily():\n    import side\n",
        "side": "from more.sizes import SMALL\nimport json\n",
    }
    before = code(tmp_path / "a", **files, more__sizes="SMALL = 1\n")
    assert code(tmp_path / "b", **files, more__sizes="SMALL = 1\n") == before
    # An import that has not happened yet is not seen.
    assert code(tmp_path / "c", **files, more__sizes="SMALL = 2\n") == before
    files["shape"] = "import side\n"
    first = code(tmp_path / "d", **files, more__sizes="SMALL = 1\n")
    assert code(tmp_path / "e", **files, more__sizes="SMALL = 2\n") != first
    assert code(tmp_path / "f", **files, more__sizes="SMALL = 1\n", unused="") == first


def test_the_code_is_that_which_runs_not_what_was_written_since(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", shape="SIDES = 4\n")
    before = code_of("shape", place)
    (tmp_path / "a/shape.py").write_text("SIDES = 5\n")
    assert code_of("shape", place) == before


def test_a_loader_that_does_not_give_the_text_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of pytest, which rewrites the asserts of plugins."""
    wanted = code(tmp_path / "a", shape="SIZE = 1\n")
    place = folder(tmp_path / "b", shape="SIZE = 1\n")
    spec = module_of("shape", place).__spec__
    assert spec is not None
    monkeypatch.setattr(spec, "loader", object())
    assert code_of("shape", place) == wanted != ""


def test_a_module_without_text_has_no_code() -> None:
    assert code_of("itertools", "") == ""
