"""
The package: its parts are loaded when they are asked for.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import pystore


def test_every_public_name_has_a_home() -> None:
    """
    ``dir`` shows it even before it was loaded.
    """
    assert sorted(pystore._HOMES) == sorted(pystore.__all__)
    assert set(pystore.__all__) <= set(dir(pystore))
    for name in pystore.__all__:
        assert getattr(pystore, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """
    The error is that of any module.
    """
    with pytest.raises(AttributeError, match="'pystore' has no attribute 'NoSuchName'"):
        _ = pystore.NoSuchName  # type: ignore[attr-defined]


def test_the_package_alone_loads_no_core() -> None:
    """
    A worker with Python files only could not.
    """
    code = "import sys, pystore; print('pystore._core' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )

    assert "False" == done.stdout.strip()


def test_a_deprecated_name_warns_and_is_what_it_is_called_now() -> None:
    """
    A program of before the renaming runs as it did.
    """
    with pytest.warns(DeprecationWarning, match=r"pystore\.MaintenanceThread now"):
        old = pystore.Keeper

    assert pystore.MaintenanceThread is old
