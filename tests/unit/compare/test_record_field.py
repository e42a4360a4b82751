"""
Each byte of a record belongs to a field with the name that dump gives it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import SEGMENT

from pystore.bindings.row import Check
from pystore.compare.record_field import field_at
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog


@pytest.mark.parametrize("host", ["1.2.3.4:5", "[::1]:5"])
def test_the_fields_are_those_of_the_layout(tmp_path: Path, host: str) -> None:
    """
    In the order of docs/format.md, and with their sizes.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        log.append(Message("topic", b"body", properties={"a": "b"}, born_host=host))
        (row,) = next(log.scan(checks=Check.BODY | Check.PROPERTY))
    names = [field_at(row, at) for at in range(int(row["size"]))]
    sizes = {name: names.count(name) for name in names}

    assert list(sizes.items()) == [
        ("size", 4),
        ("magic", 4),
        ("bodyCRC", 4),
        ("queueId", 4),
        ("flag", 4),
        ("queueOffset", 8),
        ("physicalOffset", 8),
        ("sysFlag", 4),
        ("bornTimestamp", 8),
        ("bornHost", 8 if "." in host else 20),
        ("storeTimestamp", 8),
        ("storeHost", 8),
        ("reconsumeTimes", 4),
        ("preparedTransactionOffset", 8),
        ("bodyLength", 4),
        ("body", 4),
        ("topicLength", 1),
        ("topic", 5),
        ("propertiesLength", 2),
        ("properties", 4),
        ("property CRC", 20),
    ]
