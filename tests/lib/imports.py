"""
Which module of the source imports which.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["MODULES", "ROOT", "import_edges", "imports_of", "module_of"]

ROOT = Path(__file__).parents[2]
FOLDERS = {"pystore": "pystore", "ha": "pystore.ha", "controller": "pystore.controller"}


def module_of(path: Path) -> str:
    """
    Returns the name of a module by its file.
    """
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((FOLDERS[folder], *rest)).removesuffix(".__init__")


MODULES = {
    module_of(path): path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(above.is_symlink() for above in path.parents)
}


@cache
def imports_of(path: Path) -> list[str]:
    """
    Returns the dotted names that a file imports.
    """
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            found += [f"{node.module}.{name.name}" for name in node.names]
    return found


def import_edges() -> Iterator[tuple[str, str]]:
    """
    Yields each import of a module by another one.
    """
    for module, path in MODULES.items():
        for imported in imports_of(path):
            name = imported
            while "." in name and name not in MODULES:
                name = name.rpartition(".")[0]
            is_core = imported.startswith("pystore._core")  # built, it imports nothing
            if name in MODULES and name != module and not is_core:
                yield module, name
