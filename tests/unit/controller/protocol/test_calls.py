"""
The calls of a broker and their results.
"""

from __future__ import annotations

import inspect

from pystore.controller.protocol import calls
from pystore.controller.protocol.calls import (
    CallRefused,
    CallUnanswered,
    ControllerCalls,
    ElectMaster,
    HeartbeatAnswer,
    MasterInfo,
    SendHeartbeat,
)
from pystore.controller.protocol.extensions import LeaseGrant
from pystore.replicaset import AgreedSet


def test_missing_values_have_rocketmqs_defaults() -> None:
    """Formats 4.3 and 4.8: -1 is not known, the lowest priority is the last."""
    beat = SendHeartbeat("c", "b", 1, "a:1")

    assert (-1, -1, -1) == (beat.epoch, beat.max_offset, beat.confirm_offset)
    assert (10_000, 2147483647) == (beat.timeout_ms, beat.priority)
    assert (-1, False) == (
        ElectMaster("c", "b").broker_id,
        ElectMaster("c", "b").is_designated,
    )
    assert (None, AgreedSet()) == (
        MasterInfo().master,
        MasterInfo().agreed,
    )


def test_a_controller_without_leases_differs_from_one_that_grants_none_now() -> None:
    """A lease of 0 ms ends what the master decides alone; no leases do not."""
    assert HeartbeatAnswer() != HeartbeatAnswer(LeaseGrant())
    assert HeartbeatAnswer().lease is None


def test_every_call_may_be_refused_and_may_stay_unanswered() -> None:
    """
    RMQ-R28: the type checker finds a caller that forgets one of the three results.
    """
    made = [
        method
        for name, method in vars(ControllerCalls).items()
        if inspect.iscoroutinefunction(method)
    ]

    assert 8 == len(made)
    for method in made:
        ends = inspect.get_annotations(method)["return"].split(" | ")
        assert ["CallRefused", "CallUnanswered"] == ends[1:]
        assert hasattr(calls, ends[0])


def test_a_refusal_differs_from_a_missing_answer() -> None:
    """A refusal means not done; a missing answer leaves the outcome open."""
    assert CallRefused(2014) != CallRefused(2010)
    assert ("", "a") == (CallRefused(1).remark, CallUnanswered("a").reason)
