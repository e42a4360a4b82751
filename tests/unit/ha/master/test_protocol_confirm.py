"""
A slave learns the confirm offset soon, in either protocol, and is not pestered.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lib.ha.master_bench import TERMS, Bench, LegacyBench, ack, data_of, legacy_of
from lib.values import replace

from pystore.ha.insync.facts import SessionAcked
from pystore.ha.master.effects import MasterEffect, SendBlock
from pystore.ha.master.protocol import CONFIRM_MS, CONFIRM_MS_MAX
from pystore.ha.wire.legacy import LegacyData


def v3() -> Bench:
    """A v3 link that is open."""
    return Bench().opened()


def legacy() -> Bench:
    """A legacy link that is open, its first heartbeat sent."""
    bench = LegacyBench().following()
    bench.tick()
    return bench


opened = pytest.mark.parametrize("make", [v3, legacy])


def told(make: Callable[[], Bench], effects: list[MasterEffect]) -> int:
    """The confirm offset that the only frame tells, which has no block."""
    (beat,) = effects
    assert isinstance(beat, SendBlock)
    assert beat.size == 0
    if make is v3:
        return data_of(beat).confirm_offset
    frame = legacy_of(beat)
    assert isinstance(frame, LegacyData)
    return frame.confirm_offset


def confirm(bench: Bench, offset: int) -> None:
    """Every replica holds everything below."""
    bench.log = replace(bench.log, confirm_offset=offset)


@opened
def test_an_idle_slave_receives_the_confirm_offset_soon(
    make: Callable[[], Bench],
) -> None:
    """It does not wait for the heartbeat, and what it knows it is not told again."""
    bench = make()
    assert bench.blocks()
    confirm(bench, 3000)

    assert bench.connection.next_deadline() == bench.now_ms + CONFIRM_MS
    assert bench.tick(CONFIRM_MS - 1) == []
    assert told(make, bench.tick(1)) == 3000
    assert bench.connection.next_deadline() == CONFIRM_MS + TERMS.heartbeat_ms


@opened
def test_a_busy_slave_receives_the_confirm_offset_with_blocks(
    make: Callable[[], Bench],
) -> None:
    """No frame is added where one goes every few milliseconds, or is about to."""
    bench = make()
    for _ in range(50):
        bench.grow(100)
        assert bench.blocks()
        confirm(bench, bench.log.end_offset - 50)
        assert bench.tick(CONFIRM_MS - 1) == []
    bench.grow(100)

    assert bench.tick(CONFIRM_MS) == []


@opened
def test_an_unchanged_confirm_offset_is_checked_less_and_less_often(
    make: Callable[[], Bench],
) -> None:
    """A set that waits for a slow member does not wake its master all the time."""
    bench = make()
    assert bench.blocks()
    begin_ms, looks = bench.now_ms, 0
    while bench.now_ms < begin_ms + 4_000:
        due_ms = bench.connection.next_deadline()
        assert due_ms is not None
        assert bench.tick(due_ms - bench.now_ms) == []
        looks += 1
    assert looks < 4_000 / CONFIRM_MS_MAX + 5
    confirm(bench, 2900)

    assert told(make, bench.tick(CONFIRM_MS_MAX)) == 2900


def test_a_frame_for_the_confirm_offset_moves_no_time_of_a_slave() -> None:
    """RMQ-R99: only an ack of what was there when it was sent does."""
    bench = v3()
    assert bench.blocks()
    (before,) = bench.hear(ack(3000))
    bench.grow(100)
    assert bench.blocks()
    confirm(bench, 3000)
    assert told(v3, bench.tick(CONFIRM_MS)) == 3000
    (after,) = bench.hear(ack(3000))

    assert isinstance(before, SessionAcked)
    assert isinstance(after, SessionAcked)
    assert after.caught_up_ms == before.caught_up_ms == 0


def test_a_suspended_slave_gets_heartbeats_only() -> None:
    """Every interval; the confirm offset waits for it."""
    bench = v3()
    bench.connection.suspend(bench.now_ms)
    (_,) = bench.tick()
    confirm(bench, 3000)

    assert bench.connection.next_deadline() == bench.now_ms + TERMS.heartbeat_ms
