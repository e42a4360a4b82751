"""
The notebook of docs/spark.md: whole, without outputs; `make soak` runs it.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    """
    Returns the cells of the notebook that the page links to.
    """
    (name,) = set(re.findall(r"\((\w+\.ipynb)\)", (DOCS / "spark.md").read_text()))
    notebook = json.loads((DOCS / name).read_text())
    assert (4, 5) == (notebook["nbformat"], notebook["nbformat_minor"])
    found: list[dict[str, Any]] = notebook["cells"]
    return found


def _code(cells: list[dict[str, Any]]) -> list[str]:
    return ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]


def test_the_notebook_is_stored_without_outputs(cells: list[dict[str, Any]]) -> None:
    """
    A change of it is a change of text.
    """
    assert len(cells) == len({one["id"] for one in cells})
    for one in cells:
        assert not one.get("outputs")
        assert one.get("execution_count") is None


def test_the_names_that_the_notebook_imports_exist(
    cells: list[dict[str, Any]],
) -> None:
    """
    Its code compiles, and a name that was moved is missed at once.
    """
    tree = ast.parse("\n".join(_code(cells)))
    imported = [
        (node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pystore")
        for name in node.names
    ]

    assert len(imported) > 3
    for module, name in imported:
        assert hasattr(importlib.import_module(str(module)), name)


def test_the_notebook_plots_the_time_of_the_broker_and_checks_on_spark(
    cells: list[dict[str, Any]],
) -> None:
    """
    The clock of one client may be years off, and a topic may have 127 characters.
    """
    code = "\n".join(_code(cells))
    (label,) = (
        node
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef) and node.name == "label_of"
    )
    names: dict[str, Any] = {}
    exec(compile(ast.Module([label], []), "label", "exec"), names)

    assert 'TIME = "storeTimestamp"' in code
    assert "sf.unix_timestamp(TIME)" in code
    assert "verify_stores(on_spark(session), [STORE])" in code
    assert "orders" == names["label_of"]("orders")
    assert 28 == len(names["label_of"]("a" * 127))
    assert code.count("label=label_of(topic)") == 2


def test_the_notebook_plots_names_in_an_installed_asian_font(
    cells: list[dict[str, Any]],
) -> None:
    """
    Behind the usual one, which has no Chinese, Japanese or Korean letters.
    """
    tree = ast.parse("\n".join(_code(cells)))
    (asian,) = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ASIAN"
    )
    (family,) = (
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "font.family"
    )
    names = {
        "ASIAN": ast.literal_eval(asian),
        "installed": {"DejaVu Sans", "Comic Sans MS", "Noto Sans CJK JP"},
    }

    assert ["DejaVu Sans", "Noto Sans CJK JP"] == eval(ast.unparse(family), names)
