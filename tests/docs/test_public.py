"""
docs/public.md lists exactly the names that users can import and that pages use.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import pystore

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "public.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = re.compile(r"^```py(?:thon)?\n(.*?)^```$", re.M | re.S)


def _listed(heading: str, column: int) -> list[str]:
    """
    Returns the quoted names in a column of the table below a heading.
    """
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    rows = re.findall(r"^\| (.*) \|$", section.split("\n## ")[0], re.M)[1:]
    cells = [row.split(" | ")[column] for row in rows]
    return [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]


SUBMODULES = _listed("Submodules", 0)
PROVISIONAL = _listed("Provisional submodules", 0)


def imported(code: str) -> set[str]:
    """
    Returns the modules of pystore that an example imports.
    """
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return {name for name in found if name.split(".")[0] == "pystore"}


def _imports() -> set[str]:
    """
    Returns the imports of the examples of all pages.
    """
    return {
        module
        for page in PAGES
        for code in EXAMPLES.findall(page.read_text(encoding="utf-8"))
        for module in imported(code)
    }


def test_the_page_lists_each_name_of_the_package_once() -> None:
    """
    A new name enters the page, and one that goes away leaves it.
    """
    assert sorted(pystore.__all__) == sorted(_listed("Names of `pystore`", 1))


@pytest.mark.parametrize("name", SUBMODULES)
def test_a_public_submodule_can_be_imported_and_has_a_docstring(name: str) -> None:
    """
    Without Spark, ZooKeeper or anything else that is optional.
    """
    assert (import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize("name", PROVISIONAL)
def test_a_provisional_submodule_exists_and_has_a_docstring(name: str) -> None:
    """
    It may need optional packages, so it is read and not imported.
    """
    spec = find_spec(name)

    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source))


def test_no_submodule_is_listed_twice() -> None:
    """
    It is public or provisional, not both.
    """
    assert len({*SUBMODULES, *PROVISIONAL}) == len([*SUBMODULES, *PROVISIONAL])


def test_examples_import_public_and_provisional_modules_only() -> None:
    """
    A page teaches no import that may break without a note.
    """
    assert set() == _imports() - {"pystore", *SUBMODULES, *PROVISIONAL}


def test_a_provisional_submodule_is_one_that_an_example_uses() -> None:
    """
    The list gets shorter with the examples.
    """
    assert [] == sorted(set(PROVISIONAL) - _imports())


def test_imports_of_an_example_are_found() -> None:
    """
    Each form of an import is found, and nothing else.
    """
    code = (
        "import pystore.spark, numpy\ndef f():\n    from pystore.ha.role import Role\n"
    )

    assert {"pystore.spark", "pystore.ha.role"} == imported(code)
    assert set() == imported("from pystores import pystore\n")
