"""
The options of the histories.
"""

from __future__ import annotations

from lib.samples import pytest_addoption, pytest_collection_modifyitems

__all__ = ["pytest_addoption", "pytest_collection_modifyitems"]
