"""
Names in pickles: those of today do not move, those of revision 7f377bd are found.
"""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from pystore import stored_names


@pytest.mark.parametrize("name", stored_names._STORED)
def test_a_stored_name_is_the_class_that_pickles_name(name: str) -> None:
    """
    The table and the decorator say the same.
    """
    found = getattr(stored_names, name)

    assert ("pystore.stored_names", name) == (found.__module__, found.__qualname__)


@pytest.mark.parametrize("module", stored_names._MOVED)
def test_the_names_of_a_module_that_moved_are_found(module: str) -> None:
    """
    In the module of that time, as an old pickle asks for them.
    """
    old = import_module(f"pystore.{module}")

    assert all(callable(getattr(old, name)) for name in stored_names._MOVED[module])
    with pytest.raises(AttributeError, match=f"'pystore.{module}' has no attribute"):
        _ = old.NoSuchName


def test_a_module_that_never_was_is_not_found() -> None:
    """
    An import with a mistake fails as it always does.
    """
    with pytest.raises(
        ModuleNotFoundError, match=r"No module named 'pystore\.no_such_module'"
    ):
        import_module("pystore.no_such_module")
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchName'"):
        _ = stored_names.NoSuchName


def test_the_finder_is_installed_once() -> None:
    """
    Importing the package anew does not add another one.
    """
    before = sys.meta_path.copy()

    stored_names.install()

    assert before == sys.meta_path
