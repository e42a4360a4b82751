"""
A task of an executor: brokers that answer late or not at all, and bytes that are not
what a broker tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.recoveries import flip
from lib.spark.local_rounds import replicas_of
from lib.store.pairs import SEGMENT

from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.errors import InvalidError, UnavailableError
from pystore.seals import Seal
from pystore.segments.copy import LogCopy
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    SegmentOrder,
    segment_digest,
)
from pystore.segments.store_copy import StoreCopy
from pystore.spark.peers.access import BrokerAccess
from pystore.spark.peers.check import (
    BrokerTask,
    CopyTask,
    DirectRead,
    check_copies,
    run_check,
)

_REPLICA = ReplicaAddress("cluster", "set", 1, "127.0.0.1:1")
_ORDER = SegmentOrder("claim", SEGMENT, OrderAction.CHECK)


@pytest.fixture
def replicas(tmp_path: Path) -> LocalSet:
    """
    One replica.
    """
    return replicas_of(tmp_path, 1)


def _open(path: str) -> AbstractContextManager[LogCopy]:
    return nullcontext(StoreCopy(Path(path)))


def _direct(
    replicas: LocalSet, open_copy: Callable[[str], AbstractContextManager[LogCopy]]
) -> DirectRead | None:
    root = str(replicas.replicas[1].root)
    copy = CopyTask(SEGMENT, SEGMENT, is_direct=True)
    task = BrokerTask(BrokerAccess(), _REPLICA, root, "claim", (copy,))
    (found,) = check_copies(task, replicas, open_copy)
    return found.direct


class _Lying(StoreCopy):
    """
    Tells the seals or digests of other bytes than it serves.
    """

    def __init__(
        self, root: Path, *, wrong_reads: int = 99, digest: int = 0, sealed: bool = True
    ) -> None:
        super().__init__(root)
        self._wrong_reads, self._digest, self._sealed = wrong_reads, digest, sealed

    def block(self, base: int, index: int) -> bytes:
        """As of `LogCopy`."""
        right = super().block(base, index)
        self._wrong_reads -= 1
        return right if self._wrong_reads < 0 else b"x" + right[1:]

    def digests(self, base: int, indexes: Iterable[int]) -> dict[int, int | None]:
        """As of `LogCopy`."""
        if self._digest:
            return dict.fromkeys(indexes, self._digest)
        return StoreCopy(self.root).digests(base, indexes)

    def seal(self, base: int) -> Seal | None:
        """As of `LogCopy`."""
        found = super().seal(base)
        if found is None or not self._sealed:
            return None
        if not self._digest:
            return found
        return replace(found, block_digests=(self._digest,))


def test_a_check_that_runs_for_long_is_waited_for(replicas: LocalSet) -> None:
    """
    It is asked about, less and less often, up to twice a second.
    """
    replicas.replicas[1].polls = 9
    waits: list[float] = []
    found = run_check(replicas, _REPLICA, _ORDER, pause=waits.append)
    assert OrderOutcome.WHOLE is found.outcome
    assert [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5] == pytest.approx(waits)
    assert 1 == len(replicas.replicas[1].orders)


def test_a_broker_that_is_silent_for_15_s_has_given_no_answer(
    replicas: LocalSet,
) -> None:
    """
    Shorter silence is nothing.
    """
    now_ms, silent_until_ms = [0], [10_000]

    def silence(call: str, _: int) -> None:
        if call in ("order", "progress") and now_ms[0] < silent_until_ms[0]:
            raise UnavailableError("timed out")

    def pause(seconds: float) -> None:
        now_ms[0] += max(1, round(1000 * seconds))

    replicas.before = silence
    found = run_check(replicas, _REPLICA, _ORDER, lambda: now_ms[0], pause)
    assert OrderOutcome.WHOLE is found.outcome
    silent_until_ms[0] = 1 << 40
    began_ms = now_ms[0]
    found = run_check(replicas, _REPLICA, _ORDER, lambda: now_ms[0], pause)
    assert (OrderOutcome.FAILED, "timed out") == (found.outcome, found.detail)
    assert 15_000 <= now_ms[0] - began_ms < 16_000


def test_a_refusal_is_no_answer_about_the_copy(replicas: LocalSet) -> None:
    """
    It is not asked again.
    """
    calls = []

    def refuse(call: str, _: int) -> None:
        calls.append(call)
        raise InvalidError("you may not")

    replicas.before = refuse
    found = run_check(replicas, _REPLICA, _ORDER)
    assert (OrderOutcome.FAILED, "you may not") == (found.outcome, found.detail)
    assert ["order"] == calls


def test_bytes_that_are_what_the_broker_tells_are_digested(replicas: LocalSet) -> None:
    """
    Sealed, and without a seal.
    """
    root = replicas.replicas[1].root
    for _ in range(2):
        found = _direct(replicas, _open)
        assert found is not None
        assert found.digests == StoreCopy(root).digests(SEGMENT, [0])
        assert (False, (), "") == (found.is_lie, found.differing, found.problem)
        (root / "meta/seals" / f"{SEGMENT:020d}.seal").unlink(missing_ok=True)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_other_bytes_than_the_broker_tells_are_a_lie(
    replicas: LocalSet, *, is_sealed: bool
) -> None:
    """
    Its seal, or its digests, say one thing, and its bytes another one.
    """
    if not is_sealed:
        root = replicas.replicas[1].root
        (root / "meta/seals" / f"{SEGMENT:020d}.seal").unlink()
    found = _direct(replicas, lambda path: nullcontext(_Lying(Path(path))))
    assert found is not None
    assert (True, (0,)) == (found.is_lie, found.differing)


def test_a_seal_that_fits_the_bytes_and_not_the_answer_is_a_lie(
    replicas: LocalSet,
) -> None:
    """
    The broker's check told the digest of good bytes; what it serves is rotten, and so
    is the seal that it shows.
    """
    root = replicas.replicas[1].root
    flip(root, 700)
    (rotten,) = StoreCopy(root).digests(SEGMENT, [0]).values()
    flip(root, 700)
    assert rotten is not None

    class Rotten(_Lying):
        """Serves the rotten bytes."""

        def block(self, base: int, index: int) -> bytes:
            """As of `LogCopy`."""
            found = bytearray(StoreCopy(self.root).block(base, index))
            found[700] ^= 4
            return bytes(found)

    found = _direct(
        replicas, lambda path: nullcontext(Rotten(Path(path), digest=rotten))
    )
    assert found is not None
    assert (True, ()) == (found.is_lie, found.differing)
    assert segment_digest([rotten]) in found.problem


def test_bytes_that_the_network_damaged_are_read_once_more(replicas: LocalSet) -> None:
    """
    One wrong read is no lie.
    """
    found = _direct(
        replicas, lambda path: nullcontext(_Lying(Path(path), wrong_reads=1))
    )
    assert found is not None
    assert (False, ()) == (found.is_lie, found.differing)


def test_a_broker_that_serves_no_bytes_is_believed(replicas: LocalSet) -> None:
    """
    It is said in the row; what cannot be read is no lie.
    """

    def refuse(_: str) -> AbstractContextManager[LogCopy]:
        raise UnavailableError("refused")

    found = _direct(replicas, refuse)
    assert found is not None
    assert (False, "not read directly: refused") == (found.is_lie, found.problem)


def test_what_the_broker_finds_damaged_is_not_pulled(replicas: LocalSet) -> None:
    """
    Nothing is to be proven then.
    """
    flip(replicas.replicas[1].root, 700)
    assert _direct(replicas, _open) is None


def test_the_same_task_again_joins_its_jobs(replicas: LocalSet) -> None:
    """
    Spark may run a task twice.
    """
    task = BrokerTask(BrokerAccess(), _REPLICA, "", "claim", (CopyTask(0, SEGMENT),))
    twice = [check_copies(task, replicas, _open) for _ in range(2)]
    assert [OrderProgress] * 2 == [type(found[0].progress) for found in twice]
    assert 1 == len(replicas.replicas[1].orders)
