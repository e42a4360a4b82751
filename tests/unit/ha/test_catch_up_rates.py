"""
A slave that catches up keeps the rate of its host and of its master's, and no append
that waits for it is held back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.ha.master_fixture import Controller, MasterStage, Slave, data_of
from lib.ha.scripted_slave import RawSlave
from lib.rate_clock import RateClock
from lib.store.stores import SEGMENT, fill, message

from pystore.clocks import clock_ms
from pystore.ha.insync.ack import Ack
from pystore.message.message import Message
from pystore.rates import latency_samples
from pystore.rates.backlog_rate import TAIL_BYTES
from pystore.rates.host_rates import HostRates, RateLimits
from pystore.rates.shared_rate import SharedRate
from pystore.replicaset import AgreedSet, Member

BOTH = AgreedSet(frozenset({Member(1), Member(2)}), 1)
MIB = 1 << 20


def fill_bytes(stage: MasterStage, size: int) -> None:
    """
    Appends at least so many bytes.
    """
    while stage.log.end_offset < size:
        stage.log.append(Message("t", bytes(SEGMENT // 2)))


def frozen(bytes_per_second: int) -> tuple[RateClock, SharedRate]:
    """
    A rate whose clock moves when the test says so.
    """
    clock = RateClock()
    return clock, SharedRate(bytes_per_second, clock.read, clock.sleep)


def test_slaves_that_catch_up_share_the_rate_of_the_host(tmp_path: Path) -> None:
    """
    A burst for the first one, then what the clock allows, for whichever asks.
    """
    clock, rate = frozen(10_000)
    with MasterStage(tmp_path, ask=None, outward=rate) as stage:
        fill_bytes(stage, 2 * TAIL_BYTES)
        with RawSlave(stage).begin() as slave:
            assert 1_000 == len(slave.data().block)
            clock.sleep(0.05)
            stage.skip(1)
            assert 500 == len(slave.data().block)
        assert 1_500 == rate.moved_bytes


def test_the_tail_of_a_log_passes_freely(tmp_path: Path) -> None:
    """
    The rate has no budget left, and a slave lacks little.
    """
    _, rate = frozen(10)
    with MasterStage(tmp_path, ask=None, outward=rate) as stage:
        fill(stage.log, 10)
        assert stage.log.end_offset < TAIL_BYTES
        rate.spend(1 << 30)
        with RawSlave(stage).begin() as slave:
            assert slave.read_to(stage.log.end_offset)
    assert 1 << 30 == rate.moved_bytes


def test_what_writers_append_passes_a_slave_that_lags(tmp_path: Path) -> None:
    """
    Its lack grows no further: at any rate above 0 it catches up.
    """
    _, rate = frozen(10_000)
    with MasterStage(tmp_path, ask=None, outward=rate) as stage:
        fill_bytes(stage, 2 * TAIL_BYTES)
        with RawSlave(stage).begin() as slave:
            sent = len(slave.data().block)
            begin = stage.log.end_offset
            more = stage.log.append(message(1)).end - begin
            assert more == len(slave.data().block)
        assert sent == rate.moved_bytes


def test_a_member_that_lags_is_not_held_back(tmp_path: Path) -> None:
    """
    Acknowledgements wait for it.
    """
    _, rate = frozen(10)
    with MasterStage(tmp_path, ask=None, outward=rate, agreed=BOTH) as stage:
        fill_bytes(stage, 4 * TAIL_BYTES)
        with RawSlave(stage).begin() as slave:
            slave.read_to(stage.log.end_offset)
    assert 0 == rate.moved_bytes


@pytest.mark.parametrize("ack", [Ack.ALL, Ack.ALL_SYNCED])
def test_no_append_waits_for_a_rate(tmp_path: Path, ack: Ack) -> None:
    """
    Both hosts have moved too much for an hour, and a member takes each append at once.
    """
    limits = RateLimits(1000, 1000)
    rates = HostRates(limits), HostRates(limits)
    around = {"rates": rates[0], "is_waited_for": lambda: True}
    with (
        MasterStage(tmp_path / "master", outward=rates[1].outward) as stage,
        Slave(stage.service.address, tmp_path / "slave", around=around),
    ):
        stage.controller.wait_for({1, 2})
        for one in (rates[0].inward, rates[1].outward):
            one.spend(3_600_000)
        began_ms = clock_ms()
        for number in range(50):
            _, settled = stage.service.append(
                [message(number), Message("t", bytes(SEGMENT // 2))], ack, 30_000
            )
            assert settled.is_reached
            assert {1, 2} == settled.received_by
        assert clock_ms() - began_ms < 30_000


def caught_up(
    tmp_path: Path, size: int, limits: RateLimits, is_waited_for: Callable[[], bool]
) -> tuple[HostRates, float]:
    """
    A slave that takes a log of this size; returns its host's rates, and how long it
    paused.
    """
    clock = RateClock()
    rates = HostRates(limits, clock.read, clock.sleep)
    around: dict[str, Any] = {
        "rates": rates,
        "pause": lambda wait_ms: clock.sleep(wait_ms / 1000),
        "is_waited_for": is_waited_for,
    }
    with MasterStage(tmp_path / "master", ask=None) as stage:
        fill_bytes(stage, size)
        with Slave(stage.service.address, tmp_path / "slave", around=around) as slave:
            stage.wait_for_ack(stage.log.end_offset)
            slave.stop()
            assert slave.said == []
        assert data_of(tmp_path / "master") == data_of(tmp_path / "slave")
    return rates, clock.now_ms - 1_000


def test_a_slave_that_catches_up_keeps_the_rate_of_its_host(tmp_path: Path) -> None:
    """
    But for what came before it knew how much it lacks.
    """
    rates, paused_ms = caught_up(
        tmp_path, 8 * MIB, RateLimits(in_bytes=MIB), lambda: False
    )
    moved = rates.inward.moved_bytes
    assert 5 * MIB < moved
    assert 0.9 * (moved - 1.1 * MIB) / MIB <= paused_ms / 1000 <= 1.1 * moved / MIB


def test_a_slave_that_acks_may_wait_for_never_pauses(tmp_path: Path) -> None:
    """
    As the newest decision of the controller says.
    """
    rates, paused_ms = caught_up(
        tmp_path, 4 * MIB, RateLimits(in_bytes=1000), lambda: True
    )
    assert (0, 0.0) == (rates.inward.moved_bytes, paused_ms)


def test_an_append_that_the_core_syncs_is_measured(tmp_path: Path) -> None:
    """
    With the ack `leader-synced` the append itself waits for the disk.
    """
    latency = HostRates(RateLimits(latency_ms=1)).latency
    with MasterStage(tmp_path, latency=latency) as stage:
        for number in range(5):
            stage.service.append(message(number), Ack.LEADER_SYNCED, 30_000)
    found = latency.p99_ms(60_000)
    assert found is not None
    assert found >= 0.05


def test_the_waits_of_synced_acks_are_measured_on_both_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Repairs of either yield to them.
    """
    # In memory a sync takes less time than what counts as a wait.
    monkeypatch.setattr(latency_samples, "_NO_WAIT_NS", 0)
    rates = [HostRates(RateLimits(latency_ms=1)) for _ in range(2)]
    with (
        MasterStage(
            tmp_path / "master", agreed=Controller().agreed, latency=rates[0].latency
        ) as stage,
        Slave(
            stage.service.address, tmp_path / "slave", around={"rates": rates[1]}
        ) as _,
    ):
        stage.controller.wait_for({1, 2})
        for number in range(5):
            _, settled = stage.service.append(message(number), Ack.ALL_SYNCED, 30_000)
            assert settled.is_reached
        for one in rates:
            found = one.latency.p99_ms(60_000)
            assert found is not None
            assert found > 0
