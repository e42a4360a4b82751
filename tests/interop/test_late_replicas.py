"""
Replicas of pystore that begin late, under controllers of RocketMQ, which elect any
member: learners until they are whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.java_controllers import KINDS, running
from lib.late_set import (
    LateSet,
    late_set,
    tell_of_a_late_replica,
    tell_of_a_replacement,
)


@pytest.fixture(params=KINDS)
def brokers(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[LateSet]:
    """
    A set without brokers, and its controller.
    """
    kind = request.param
    with (
        running(tmp_path / "java", [kind]) as addresses,
        late_set(tmp_path, addresses[kind]) as made,
    ):
        yield made


def test_a_replica_that_begins_late_is_a_learner_until_it_is_whole(
    brokers: LateSet,
) -> None:
    """
    Without a master it is not elected; then it is filled, joins without a restart, and
    takes over.
    """
    tell_of_a_late_replica(brokers, counts=False)


def test_a_quiet_queue_goes_on_after_retention_a_replacement_and_a_failover(
    brokers: LateSet,
) -> None:
    """
    On every replica, and consumers see every acknowledged record.
    """
    tell_of_a_replacement(brokers)
