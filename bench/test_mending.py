"""
How fast segments come from a peer, and how soon a bad block is good again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from backlogs import Backlog, bare_link, full_segments, serving
from bookkeeper_set import Ledgers, auto_recovery, lacking
from contest import Contender, Contest, Timed, ratios
from large_stores import Stores
from lib.store.late import follow_from
from machine import load
from table import Table

from pystore.segments.mend_plan import plan_mending
from pystore.segments.mending import MendProgress, fill_store, mend_open
from pystore.segments.open_copies import open_copies
from pystore.segments.store_copy import StoreCopy
from pystore.store.mend import PulledSegment
from pystore.store.store import Store

_PIECE = 4 << 20
_GIB = 1 << 30
_LOST = Ledgers(8, 2048, 64 << 10)  # 1 GiB
_LOST_IN_SMOKE = Ledgers(2, 64, 64 << 10)


@pytest.fixture(scope="module")
def sealed(stores: Stores) -> Backlog:
    """
    A large store with consume queues, whose full segments are sealed.
    """
    return full_segments(stores.sealed)


def _filled(
    folder: Callable[[], Path], backlog: Backlog, *, has_entries: bool
) -> Contender:
    """
    Timed: all full segments of a log that began with its last one, pulled from a
    process that serves them and installed, on disk; with their queue entries or
    without.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        root = folder() / "late"
        follow_from(backlog.root, root, backlog.end_offset)
        with (
            serving(backlog.root) as address,
            Store(root) as store,
            open_copies([address]) as copies,
        ):
            plan = plan_mending(StoreCopy(root), copies)
            fill = fill_store(store, nullcontext())

            def install(pulled: PulledSegment) -> None:
                store.log.writer.log.install(pulled.base)

            def run() -> None:
                progress = MendProgress()
                one = fill if has_entries else install
                mend_open(store, one, plan.steps, root, progress)
                assert len(progress.done) == backlog.end_offset // backlog.segment

            yield run
            assert store.log.min_offset == 0

    return contend


@pytest.mark.benchmark(group="pull and install")
@pytest.mark.parametrize("has_entries", [False, True])
def test_a_log_is_filled_from_a_peer(
    contest: Contest,
    folder: Callable[[], Path],
    sealed: Backlog,
    table: Table,
    has_entries: bool,
) -> None:
    """
    The limit: ``sendfile``, ``recv`` and ``pwrite`` of the same bytes into allocated
    files, and ``fdatasync`` of each.
    """
    if not sealed.end_offset:
        pytest.skip("the store of a smoke test has no full segment")
    limits = {"bare": bare_link(folder, sealed, _PIECE, is_synced=True)}
    taken = contest.hold(_filled(folder, sealed, has_entries=has_entries), limits)
    what = "with queue entries" if has_entries else "without queue entries"
    speed = taken["pystore"].scaled(sealed.end_offset / _GIB)
    bare = taken["bare"].scaled(sealed.end_offset / _GIB)
    table.at_least(
        f"pull and install {what}, of a bare synced copy over a socket",
        0.5 if has_entries else 0.7,
        ratios(taken["bare"], taken["pystore"]),
        {
            "pystore": f"{speed.median:.2f} GiB/s",
            "bare": f"{bare.median:.2f} GiB/s",
            "load": load(),
        },
    )


@pytest.mark.benchmark(group="pull and install, of BookKeeper")
def test_a_fill_is_faster_than_auto_recovery(
    contest: Contest,
    folder: Callable[[], Path],
    sealed: Backlog,
    is_smoke: bool,
    table: Table,
) -> None:
    """
    BookKeeper copies a lost bookie's ledgers from the other bookie to a spare one, and
    syncs them; the sizes differ, so rates are compared.
    """
    if reason := lacking():
        pytest.skip(reason)
    if is_smoke:
        # Its store has no full segment: only the rival is tried.
        contest.hold(auto_recovery(folder, _LOST_IN_SMOKE), {})
        return
    others = {
        "BookKeeper": auto_recovery(folder, _LOST),
        "with": _filled(folder, sealed, has_entries=True),
    }
    taken = contest.hold(_filled(folder, sealed, has_entries=False), others)
    theirs = taken["BookKeeper"].scaled(_LOST.bytes / _GIB)
    for name, what in (("pystore", "without"), ("with", "with")):
        speed = taken[name].scaled(sealed.end_offset / _GIB)
        table.at_least(
            f"pull and install {what} queue entries, of BookKeeper's AutoRecovery",
            10,
            ratios(taken["BookKeeper"], taken[name], sealed.end_offset / _LOST.bytes),
            {
                "pystore": f"{speed.median:.2f} GiB/s",
                "BookKeeper 4.17.3": f"{theirs.median:.3f} GiB/s",
                "load": load(),
            },
        )
