"""
The table of next queue offsets on the slave's side; its pages are tested with the
frames (`tests/unit/ha/wire/test_queue_frames.py`).
"""

from __future__ import annotations

import pytest

from pystore.errors import RemoteViolation
from pystore.ha.slave.queue_query import QueuePages


def test_no_log_begins_before_a_page_came() -> None:
    """
    Where it begins is in the page.
    """
    pages = QueuePages()
    assert not pages.is_whole
    with pytest.raises(RemoteViolation, match="no page of queue offsets came"):
        pages.begin()
