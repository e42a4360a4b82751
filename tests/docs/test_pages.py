"""
The statements of the pages under docs/ about the source are true.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from pystore.ha.insync.ack import Ack
from pystore.spark.plan.schema import COLUMNS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = [
    *(ROOT / "pystore").glob("**/*.py"),
    *(ROOT / "csrc").glob("*.[ch]"),
    *(ROOT / "tests" / "lib").rglob("*.py"),
]


def _text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def _headings(page: str) -> list[str]:
    return [found.lower() for found in re.findall(r"^#+ (.*)$", _text(page), re.M)]


def _floors(heading: str, cells: str) -> dict[str, int]:
    """
    Returns the floors of the names in an architecture table, of which *cells* matches
    the cells behind the floor.
    """
    table = _text("architecture.md").split(f"| floor | {heading} |")[1].split("\n\n")[0]
    rows = re.findall(rf"^\| (\d+) \| {cells} \|$", table, re.M)
    placed = [(name, int(floor)) for floor, names in rows for name in _quoted(names)]
    twice = [name for name, times in Counter(n for n, _ in placed).items() if times > 1]
    assert [] == twice
    return dict(placed)


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def _assigned(path: Path, name: str) -> dict[str, int]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            value: dict[str, int] = ast.literal_eval(node.value)
            return value
    raise AssertionError(f"{path} has no {name}")


def test_the_house_names_each_folder_once() -> None:
    """
    Each listed folder exists.
    """
    table = _text("architecture.md").split("| folder | |")[1].split("\n\n")[0]
    folders = re.findall(
        r"`(\w+/)`", "\n".join(re.findall(r"^\| ([^|]+)", table, re.M))
    )

    assert sorted(set(folders)) == sorted(folders)
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_the_floors_of_the_page_are_those_that_are_enforced() -> None:
    """
    The page has one row for each floor, with the packages of ``FLOORS``.
    """
    enforced = _assigned(ROOT / "tests/unit/test_floors.py", "FLOORS")
    heading = "packages of `pystore` | what they hold"

    assert {
        name.removeprefix("pystore."): floor for name, floor in enforced.items()
    } == (_floors(heading, r"([^|]+) \| [^|]+"))
    table = _text("architecture.md").split(f"| floor | {heading} |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \|", table, re.M)
    assert sorted(set(enforced.values()), reverse=True) == [int(row) for row in rows]


def test_packages_that_do_not_exist_yet_are_shown_as_planned() -> None:
    """
    A package that appears loses the word, and one that is gone leaves the table.
    """
    enforced = _assigned(ROOT / "tests/unit/test_floors.py", "FLOORS")
    absent = {
        name.removeprefix("pystore.")
        for name in enforced
        if name != "pystore" and not _exists(name.removeprefix("pystore."))
    }

    assert absent == set(re.findall(r"`([^`]+)` \(planned\)", _text("architecture.md")))


def test_each_file_of_the_look_ups_is_there() -> None:
    """
    A file that is moved takes its answer on the page along.
    """
    table = _text("architecture.md").split("| question | file |")[1].split("\n\n")[0]
    files = [name for name in _quoted(table) if "/" in name]

    assert len(files) > 20
    assert [] == [name for name in files if not (ROOT / name).is_file()]


def _exists(module: str) -> bool:
    path = ROOT.joinpath("pystore", *module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_the_floors_of_the_core_are_those_that_are_enforced() -> None:
    """
    The same for the files of csrc/.
    """
    enforced = _assigned(ROOT / "tests/unit/test_core_floors.py", "CORE_FLOORS")

    assert enforced == _floors("of the core | files of `csrc`", r"[^|]+ \| ([^|]+)")


@pytest.mark.parametrize("page", ["format.md"])
def test_each_cited_section_has_a_heading(page: str) -> None:
    """
    A reader who follows a citation finds the section.
    """
    cited = {
        re.sub(r"\s+(?:\*\s+)?", " ", name)
        for path in SOURCES
        for name in re.findall(
            re.escape(page) + r",\s+(?:\*\s+)?((?!that )[a-z][a-z -]+[a-z])",
            path.read_text(encoding="utf-8"),
        )
    }
    words = {part for name in cited for part in name.split(" and ")} | cited
    headings = " / ".join(_headings(page))

    assert cited
    assert [] == sorted(name for name in words if name not in headings)


def test_every_rule_names_its_code_and_its_tests() -> None:
    """
    A1 to A19 and A21, each with its code and its tests.
    """
    sections = _text("crash-safety.md").split("\n### ")[1:]
    rules = [section for section in sections if re.match(r"A\d+ ", section)]

    assert [f"A{n}" for n in (*range(1, 20), 21, 22)] == [
        rule.split()[0] for rule in rules
    ]
    assert [] == [
        rule.split("\n")[0]
        for rule in rules
        if "*Code:* `" not in rule or "*Tests:* `" not in rule
    ]


def test_every_test_that_a_rule_names_exists() -> None:
    """
    A renamed test takes its name on the page along.
    """
    named = {
        name
        for name in _quoted(_text("crash-safety.md"))
        if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+){3,}", name)
    }

    assert len(named) > 50
    assert [] == sorted(named - _defined_tests())


def _defined_tests() -> set[str]:
    tests = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "tests").rglob("test_*.*")
        if path.suffix in (".py", ".c")
    )
    return set(re.findall(r"(?:^ *def|^static void) (\w+)\(", tests, re.M))


def test_each_ack_and_fault_names_a_test_or_promises_nothing() -> None:
    """
    Every ack has a column, and no cell is a promise without a test.
    """
    section = _text("crash-safety.md").split("## Which ack survives which fault")[1]
    lines = re.findall(r"^\| (.*) \|$", section.split("\n## ")[0], re.M)
    head, *rows = [line.split(" | ") for line in lines]
    cells = [(row[0], cell) for row in rows for cell in row[1:]]
    tests = _defined_tests()

    assert ["fault", *(f"`{ack.value}`" for ack in Ack)] == head
    assert 9 == len(rows)
    assert {len(head)} == {len(row) for row in rows}
    assert [] == [
        cell
        for cell in cells
        if "not promised" not in cell[1] and tests.isdisjoint(_quoted(cell[1]))
    ]


def test_each_fault_has_its_effect_and_names_tests_that_exist() -> None:
    """
    Every row of the page has a line for the operator, or the word none.
    """
    rows = [
        line.strip("| ").split(" | ")
        for line in _text("faults.md").splitlines()
        if line.startswith("| ") and not line.startswith("| fault ")
    ]
    tests = _defined_tests()

    assert len(rows) > 20
    assert {4} == {len(row) for row in rows}
    assert [] == [row[0] for row in rows if not _quoted(row[3])]
    assert [] == [name for row in rows for name in _quoted(row[3]) if name not in tests]
    assert [] == [row[0] for row in rows if "*" not in row[2] and row[2] not in _LINES]


_LINES = ("none", "master or slave: what was wrong with the frame")


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_file_of_the_project_that_a_page_names_exists(page: str) -> None:
    """
    The page has the current name of a moved file.
    """
    named = re.findall(r"`((?:csrc|pystore|tests|bench|wheels)/[\w./]*)`", _text(page))

    assert [] == sorted(name for name in named if not (ROOT / name).exists())


def test_the_columns_of_the_spark_page_are_those_of_the_source() -> None:
    """
    The page has each column with its type and content, in the order of a table.
    """
    table = _text("spark.md").split("## Columns")[1].split("## Options")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\w<>,]+) \| (.*) \|$", table, re.M)

    assert [(one.name, one.type, one.text) for one in COLUMNS.values()] == rows
