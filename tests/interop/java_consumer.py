"""
RocketMQ's pull consumer, which reads each queue from its first offset to its end.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from interop import jvm

__all__ = ["consumed"]


def consumed(name_server: str, topics: Mapping[str, int]) -> dict[str, list[bytes]]:
    """
    Returns the bodies that a broker serves, by ``TOPIC/QUEUE``; no queue offset is
    missing between them. A broker tells its name server of its topics a moment after it
    is up: that is waited for.

    Args:
        name_server: its address.
        topics: the number of queues of each.
    """
    job = {"do": "consume", "namesrv": name_server, "topics": dict(topics)}
    answer = jvm.run_once("CompactionTool", job)
    assert ["NO_NEW_MSG"] == answer["endedWith"]
    found = {}
    for name, lines in answer["consumed"].items():
        first = lines[0][0]
        assert list(range(first, first + len(lines))) == [at for at, *_ in lines], name
        found[name] = [base64.b64decode(content) for _, content, *_ in lines]
    return found
