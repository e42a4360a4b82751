"""
The house rules that a machine can check: sizes, names, docstrings, links.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]
SPARK = ROOT / "tests" / "spark"  # what needs a session
SOURCE = ("pystore", "ha", "controller")
FOLDERS = (*SOURCE, "bench", "csrc", "tests", "wheels")

FILE_LINES = {".py": 400, ".c": 600, ".h": 600}
FUNCTION_LINES = 70
C_COLUMNS = 80  # clang-format leaves comments alone; Python's 88 are ruff's

C_FUNCTION = re.compile(r"^\w[^;{}#]*?(\w+)\([^;{}]*\)\s*\{$.*?^\}$", re.M | re.S)

# Modules without a test file of their own, and why.
UNTESTED = {
    "controller/model/commands.py": "values alone, tested through unit/controller/decide/test_dispatch",
    "controller/model/events.py": "values alone, tested through unit/controller/model/test_apply",
    "controller/model/replies.py": "values alone, tested through unit/controller/model/test_views",
    "controller/server/leadership.py": "tested through unit/controller/server/test_controller",
    "controller/server/describe.py": "tested through unit/cli/admin/test_admin",
    "controller/server/term.py": "tested through unit/controller/server/test_controller",
    "controller/server/context.py": "values alone",
    "controller/server/notifier.py": "tested through unit/controller/server/test_controller",
    "pystore/cli/admin/client.py": "tested through unit/cli/admin/test_admin",
    "pystore/cli/admin/policy.py": "tested through unit/cli/admin/test_admin",
    "pystore/cli/admin/controllers.py": "tested through unit/cli/admin/test_admin",
    "pystore/cli/admin/describe.py": "tested through unit/cli/admin/test_admin",
    "pystore/cli/admin/epochs.py": "tested through unit/cli/admin/test_admin",
    "pystore/cli/admin/sets.py": "tested through unit/cli/admin/test_admin",
    "pystore/errors.py": "tested through unit/bindings/test_ffi, where errors are raised",
    "pystore/remoting/operator_headers.py": "values alone",
}


def _files(*suffixes: str, folders: tuple[str, ...] = FOLDERS) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in suffixes
        and "golden" not in path.relative_to(ROOT).parts
        and not any(above.is_symlink() for above in path.parents)
    )


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def _c_functions(path: Path) -> Iterator[tuple[str, int]]:
    """
    Yields the functions of a C file, which the layout begins in column 0.
    """
    text = path.read_text(encoding="utf-8")
    for match in C_FUNCTION.finditer(text):
        yield match[1], match[0].count("\n") + 1


def test_no_file_is_longer_than_one_idea() -> None:
    """
    A file past the limit holds two ideas: split it by its nouns.
    """
    sizes = {
        _name(path): path.read_bytes().count(b"\n") for path in _files(*FILE_LINES)
    }

    assert {} == {
        name: lines
        for name, lines in sizes.items()
        if lines > FILE_LINES[Path(name).suffix]
    }


def test_no_function_is_longer_than_a_screen() -> None:
    """
    A function past the limit has a part that deserves a name.
    """
    long = [
        f"{_name(path)}: {name}: {lines} lines"
        for path in _files(*FILE_LINES)
        for name, lines in (
            _python_functions(path) if path.suffix == ".py" else _c_functions(path)
        )
        if lines > FUNCTION_LINES
    ]

    assert [] == long


def test_no_line_of_c_is_wider_than_half_a_screen() -> None:
    """
    Two files fit side by side.
    """
    wide = [
        f"{_name(path)}:{number}"
        for path in _files(".c", ".h")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > C_COLUMNS
    ]

    assert [] == wide


def test_every_module_has_a_test_file_of_its_name() -> None:
    """
    Who looks for the tests of a module finds them by its name.
    """
    untested = []
    for path in _files(".py", folders=SOURCE):
        folder, *rest = path.relative_to(ROOT).with_suffix("").parts
        parts = rest if folder == "pystore" else [folder, *rest]
        name = "_".join(part.strip("_") for part in parts)
        short = name.removeprefix("spark_")
        places = (UNIT / f"test_{name}.py", SPARK / f"test_{short}.py")
        if path.name != "__init__.py" and not any(place.exists() for place in places):
            untested.append(_name(path))

    assert sorted(UNTESTED) == sorted(untested)


def test_every_test_says_in_one_sentence_what_it_shows() -> None:
    """
    A failing test explains itself.
    """
    silent = [
        f"{_name(path)}: {node.name}"
        for path in _files(".py", folders=("tests", "bench"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]

    assert [] == silent


def test_setup_lists_every_package() -> None:
    """
    The list is the build's truth: what it forgets no wheel holds.
    """
    listed = re.search(r"packages=(\[.*?\])", (ROOT / "setup.py").read_text(), re.S)
    folders = [
        path.parent.relative_to(ROOT).parts
        for path in _files(".py", folders=SOURCE)
        if path.name == "__init__.py"
    ]
    names = [".".join(f if f[0] == "pystore" else ("pystore", *f)) for f in folders]

    assert listed
    assert sorted(names) == ast.literal_eval(listed[1])


@pytest.mark.parametrize("name", ["ha", "controller"])
def test_the_links_for_type_checkers_lead_to_the_folders(name: str) -> None:
    """
    Static tools do not read ``package_dir``; they follow these links.
    """
    link = ROOT / "pystore" / name

    assert (ROOT / name / "__init__.py").samefile(link / "__init__.py")
    assert Path("..") / name == link.readlink()


@pytest.mark.slow
def test_mypy_checks_every_file() -> None:
    """
    Success on some of the files would be no success.
    """
    command = [sys.executable, "-m", "mypy"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    files = len(_files(".py", ".pyi", folders=SOURCE))

    assert f"Success: no issues found in {files} source files\n" == run.stdout
