"""
What many unit tests may use: a space of records on each backend.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from record_stores import BACKENDS, Space

from pystore.records.record_store import RecordStore


@pytest.fixture(params=BACKENDS)
def space(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Space]:
    """
    An empty space on each backend in turn.
    """
    made = BACKENDS[request.param](request, tmp_path_factory)
    yield made
    made.close()


@pytest.fixture
def store(space: Space) -> RecordStore:
    """
    One store over it.
    """
    return space.open()
