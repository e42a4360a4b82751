"""
Random schedules of failures, orders and crashes: what is promised holds at each moment,
and in the end every set has its copies and nothing is left over.

A failure names its seed; ``RECOVERY_SEED`` repeats it. Those that failed once are kept.
"""

from __future__ import annotations

import os
import random

import pytest
from lib.autorecovery.replacement_auditor import Crash, Recovery
from lib.autorecovery.replacement_model import SETTINGS, ModelCluster

from pystore.autorecovery.replacement_record import (
    HostDrain,
    ReplacementKey,
    ReplacementReason,
)
from pystore.autorecovery.replacement_requests import (
    ask_replacement,
    begin_drain,
    cancel_replacement,
    end_drain,
)
from pystore.errors import InvalidError, UnavailableError
from pystore.records.memory import Fault, MemoryStore

SEEDS = 25
FIRST_SEED = int(os.environ.get("RECOVERY_SEED", "0")) or random.randrange(1, 1 << 30)
KEPT = (5, 9, 13, 22, 35, 38, 43, 44, 45, 52, 57, 75, 173, 292, 391)
STEPS = 250
HOSTS = "abcdef"


class _Schedule:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = ModelCluster({name: name for name in HOSTS})
        for number in range(3):
            self.cluster.add_set(f"set-{number}", *self.chance.sample(HOSTS, 3))
        self.is_over = False
        self.recovery = Recovery(MemoryStore(faults=self.fault), self.cluster)

    def fault(self, verb: str) -> Fault:
        if self.is_over or verb != "commit" or self.chance.random() > 0.02:
            return Fault.NONE
        return self.chance.choice([Fault.LOST_REQUEST, Fault.LOST_ANSWER])

    def called(self) -> None:
        if self.chance.random() < 0.01:
            raise Crash
        if self.chance.random() < 0.02:
            raise UnavailableError("no answer")

    def crashed(self) -> None:
        if self.chance.random() < 0.01:
            raise Crash

    def turn(self) -> None:
        """
        Something happens, or not; then the Auditor steps.
        """
        name = self.chance.choice(HOSTS)
        happens = self.chance.random()
        if (
            happens < 0.02
            and sum(it.is_alive for it in self.cluster.hosts.values()) > 4
        ):
            self.cluster.kill(name)
        elif happens < 0.05:
            self.cluster.start(name)
        elif happens < 0.06:
            self._wipe(name)
        elif happens < 0.08:
            drain = HostDrain(self.now_ms, "test", with_living=True)
            begin_drain(self.recovery.store, name, drain, self.now_ms)
        elif happens < 0.11:
            end_drain(self.recovery.store, name, "test", self.now_ms)
        elif happens < 0.12:
            self._cancel()
        elif happens < 0.14:
            self.cluster.hosts[name].refuses = self.chance.choice(["", "full"])
        elif happens < 0.16:
            self.cluster.fill = self.chance.choice([1, 100, 1000])
        self.step()

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms

    def _wipe(self, host: str) -> None:
        """
        A disk is lost, if the set has another copy.
        """
        for one in self.cluster.sets.values():
            for it in one.brokers.values():
                is_safe = len(set(one.good()) - {it.broker_id}) > 1
                if it.host == host and is_safe and it.broker_id != one.master_id:
                    self.cluster.wipe(host, one.name)
                    return

    def _cancel(self) -> None:
        for key in self.recovery.records:
            try:
                cancel_replacement(self.recovery.store, key, "test", self.now_ms)
            except InvalidError:
                # Its new replica is whole.
                continue

    def step(self) -> None:
        """
        The Auditor asks for what was lost long enough, and replaces.
        """
        if not self.is_over:
            self.recovery.called, self.cluster.called = self.crashed, self.called
        for one in self.cluster.sets.values():
            for it in one.brokers.values():
                if self.recovery.replacements.handles(
                    one.cluster, one.name, it.broker_id
                ):
                    continue
                key = ReplacementKey(one.cluster, one.name, it.broker_id)
                delay_ms = 1000 * SETTINGS.delay_s
                is_dead = not it.is_alive and self.now_ms - it.since_ms > delay_ms
                if is_dead:
                    self._ask(key, ReplacementReason.LOST)
                elif it.is_alive and it.standing.needs_operator:
                    self._ask(key, ReplacementReason.WIPED)
        self.recovery.step()

    def _ask(self, key: ReplacementKey, reason: ReplacementReason) -> None:
        store = self.recovery.store
        ask_replacement(store, key, reason, by="test", now_ms=self.now_ms)

    def end(self) -> None:
        """
        The faults are over.
        """
        self.is_over = True
        self.cluster.called = self.recovery.called = lambda: None
        self.cluster.fill = 1000
        for host in self.cluster.hosts.values():
            host.refuses = ""
            self.cluster.start(host.name)
            end_drain(self.recovery.store, host.name, "test", self.now_ms)


@pytest.mark.parametrize("number", range(SEEDS))
def test_every_schedule_ends_with_all_copies_and_nothing_left_over(number: int) -> None:
    """
    I3 and I5 at each request; the model refuses to break them.
    """
    _check(FIRST_SEED + number)


@pytest.mark.parametrize("seed", KEPT)
def test_schedules_that_failed_once_end_so_too(seed: int) -> None:
    """
    Two replacements of one set that met, late cancels, hosts that refuse.
    """
    _check(seed)


def _check(seed: int) -> None:
    print(f"seed {seed}")
    run = _Schedule(seed)
    for _ in range(STEPS):
        run.turn()
    run.end()
    for _ in range(400):
        run.step()
        if not run.recovery.records and run.cluster.is_whole:
            break

    assert {} == run.recovery.records
    for one in run.cluster.sets.values():
        assert one.copies == len(one.brokers), one
        assert sorted(one.brokers) == sorted(one.good()), one
        assert one.copies == len({it.host for it in one.brokers.values()}), one
    known = {
        (one.cluster, one.name, it.broker_id, it.host)
        for one in run.cluster.sets.values()
        for it in one.brokers.values()
    }
    hosted = {
        (*names, number, host.name)
        for host in run.cluster.hosts.values()
        for names, number in host.replicas.items()
    }
    assert known == hosted
