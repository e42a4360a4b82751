"""
How long no append gets the ack `all` when controller and master die together, or when
the controller does not hear a slave that the master hears.

Controllers and brokers are processes of their own, on loopback.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broker_sets import BrokerSet
from contest import Figure
from machine import load
from table import Table

from pystore.controller.server.config import ControllerConfig

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

DEATHS = 5
YOUNG_S = 15.0
UNHEARD_S = 40.0


@pytest.mark.benchmark(group="failover")
def test_controller_and_master_die_together(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Timed: from the SIGKILL of the master and of the leading controller to the first
    `all` on another broker; two controllers over LMDB, three brokers, minimum 2,
    default settings. The second controller has seen the master's connection close.
    Over LMDB a session ends with its process.
    """
    taken: list[float] = []
    count, least = (2, 1) if is_smoke else (3, 2)
    with BrokerSet(folder(), count, least, controllers=2) as brokers:
        if not is_smoke:
            time.sleep(YOUNG_S)

        def run() -> None:
            taken.append(brokers.fail_over_with_controller())

        benchmark.pedantic(run, rounds=1 if is_smoke else DEATHS)
        lost, acknowledged = brokers.lost(), brokers.acknowledged
    session_s = ControllerConfig().zookeeper_session_timeout / 1000
    figure = Figure(tuple(taken))
    values = {
        "session time-out": f"{session_s:g} s",
        "worst": f"{figure.most:.3f} s",
        "lost": f"{lost} of {acknowledged}",
        "load": load(),
    }
    what = "SIGKILL of master and leading controller to the first all, set of 3"
    table.at_most(what, session_s + 1, Figure((figure.most,)), "s", values)
    assert not lost


@pytest.mark.benchmark(group="failover")
def test_a_slave_that_the_controller_does_not_hear_stops_no_appends(
    benchmark: BenchmarkFixture,
    folder: Callable[[], Path],
    is_smoke: bool,
    table: Table,
) -> None:
    """
    Timed: the longest time between two `all` acks while a proxy holds all bytes between
    the controller and one slave, which stays linked to the master: a member, and a
    candidate; three brokers, minimum 2, default settings.
    """
    seconds = 0.3 if is_smoke else UNHEARD_S
    limit_ms = 1_000 if is_smoke else 15_000
    gaps: dict[str, float] = {}
    with BrokerSet(folder(), 3, 2, not_caught_up_ms=limit_ms) as brokers:

        def run() -> None:
            if not is_smoke:
                gaps["member"] = brokers.unheard_member(seconds)
            gaps["candidate"] = brokers.unheard_candidate(seconds)

        benchmark.pedantic(run, rounds=1)
        lost, acknowledged = brokers.lost(), brokers.acknowledged
    values = {"lost": f"{lost} of {acknowledged}", "load": load()}
    for kind, gap_s in gaps.items():
        what = f"{kind} unheard by the controller for {seconds:g} s: longest gap of all"
        table.at_most(what, 15, Figure((gap_s,)), "s", values)
    assert not lost
