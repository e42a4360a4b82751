"""
One version, wherever it is asked for.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pystore

ROOT = Path(__file__).parents[2]


def test_the_package_has_the_version_of_the_project() -> None:
    """
    It is written in one place, ``pyproject.toml``.
    """
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert pyproject["project"]["version"] == pystore.__version__


def test_the_command_prints_the_version_of_the_package() -> None:
    """
    A bug report may take it from either.
    """
    printed = subprocess.check_output(
        [sys.executable, "-m", "pystore", "--version"], text=True
    )

    assert f"pystore, version {pystore.__version__}\n" == printed
