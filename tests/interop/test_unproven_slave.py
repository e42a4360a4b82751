"""
A broker of RocketMQ is a slave of pystore in a set whose controller enforces.

It signs its requests, but can prove nothing on its link: only `haUnproven` admits it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from interop import jvm
from interop.controlled_set import until
from interop.guarded_set import SECRET, GuardedSet, guarded
from interop.pystore_broker import PystoreBroker, Setting

_SEGMENT = 1 << 20
_UNPROVEN = "the peer did not prove that it is a broker of this set"


class UnprovenSet:
    """
    A master of pystore, and a broker of RocketMQ that follows it as soon as it may.

    Args:
        folder: the working directory of the processes.
        guard: the controller, the name server, and the broker of RocketMQ.
    """

    def __init__(self, folder: Path, guard: GuardedSet) -> None:
        self._store = folder / "own"
        self._log = folder / "own.log"
        self._guard = guard

    @contextmanager
    def running(self, ha_unproven: str) -> Iterator[PystoreBroker]:
        """
        Runs both brokers; yields ours.

        Args:
            ha_unproven: the addresses of slaves that may go without proofs.
        """
        setting = Setting(
            cluster="rig",
            broker="broker-a",
            address=self._guard.spare,
            controller=self._guard.address,
            name_server=self._guard.names,
            store=str(self._store),
            segment_size=_SEGMENT,
            user="broker",
            secret=SECRET.format("broker"),
            ha_unproven=ha_unproven,
        )
        own = PystoreBroker(setting, self._log)
        try:
            self._guard.start_broker(1)
            yield own
        finally:
            own.kill()

    def refusals(self) -> int:
        """
        Returns how often our broker refused a link without proofs.
        """
        return self._log.read_text().count(_UNPROVEN)

    def members(self) -> int:
        """
        Returns the number of members, as the controller tells it.
        """
        return self._guard.state()[1]


@pytest.fixture
def brokers(compiled_tool: None, tmp_path: Path) -> Iterator[UnprovenSet]:  # noqa: ARG001
    """
    A set without running brokers, whose controller enforces.
    """
    with guarded(tmp_path, jvm.DEFAULT_VERSION) as guard:
        yield UnprovenSet(tmp_path, guard)


def test_a_broker_of_rocketmq_at_a_listed_address_is_a_member_without_proofs(
    brokers: UnprovenSet,
) -> None:
    """
    Appends with `all` wait for both.
    """
    with brokers.running("127.0.0.1") as own:
        until(lambda: own.standing()["set"] == [1, 2] or None)
        both = own.append(1000, 0)
        assert (["REACHED"], [1, 2]) == (both["outcomes"], both["set"])
        assert both["end"] == both["confirm"]
        assert 2 == brokers.members()
        assert 0 == brokers.refusals()


def test_a_broker_of_rocketmq_at_another_address_is_refused_and_the_set_goes_on(
    brokers: UnprovenSet,
) -> None:
    """
    The master says why each time that it comes; appends with `all` do not wait for it.
    """
    with brokers.running("10.0.0.7") as own:
        until(lambda: brokers.refusals() > 2 or None)
        alone = own.append(1000, 0)
        assert (["REACHED"], [1]) == (alone["outcomes"], alone["set"])
        seen = brokers.refusals()
        until(lambda: brokers.refusals() > seen or None)
        assert [1] == own.standing()["set"]
        assert 1 == brokers.members()
