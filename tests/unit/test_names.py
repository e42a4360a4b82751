"""
One name has one meaning: no public class is defined in two modules.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A name of a class or of a type: words with capitals, no constant.
TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")


def _type_names(text: str) -> list[str]:
    """
    Returns the public classes and type aliases that a module defines at its top.
    """
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.append(node.targets[0].id)
    return [name for name in found if TYPE_NAME.fullmatch(name)]


def _homes() -> dict[str, list[str]]:
    homes = defaultdict(list)
    for folder in ("pystore", "ha", "controller"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(above.is_symlink() for above in path.parents):
                for name in _type_names(path.read_text(encoding="utf-8")):
                    homes[name].append(path.relative_to(ROOT).as_posix())
    return homes


def test_no_public_class_name_has_two_meanings() -> None:
    """
    A reader who meets a name knows which class it is.
    """
    assert {} == {name: paths for name, paths in _homes().items() if len(paths) > 1}


def test_classes_and_aliases_are_names_of_types() -> None:
    """
    Constants, private names and functions are not.
    """
    text = "class A1b: ...\nEvent = int | str\n_Private = int\nSIZE = 4\ndef f(): ...\n"

    assert ["A1b", "Event"] == _type_names(text)
