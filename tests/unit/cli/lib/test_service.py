"""
What the daemons share.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys

import pytest

from pystore.cli.lib.service import allow_files, many_peers, run_until_signal
from pystore.net.service_loop import ServiceLoop


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)]
)
def test_a_signal_ends_the_work_after_its_clean_up(
    number: signal.Signals, code: int
) -> None:
    """
    A second signal does not interrupt the clean-up.
    """
    steps: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.05)
            steps.append("cleaned")

    assert code == run_until_signal(work())
    assert ["cleaned"] == steps


def test_work_that_ends_by_itself_has_no_code() -> None:
    """
    Then the caller knows why it ended.
    """

    async def work() -> None:
        return

    assert run_until_signal(work()) is None


@pytest.mark.parametrize("error", [OSError("no"), asyncio.CancelledError()])
def test_the_error_of_the_work_is_that_of_the_caller(error: BaseException) -> None:
    """
    A cancellation without a signal is an error, too.
    """

    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        run_until_signal(work())


def test_the_limit_of_open_files_never_falls() -> None:
    """
    It rises as far as the system allows.
    """
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        allow_files()
        after, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))

    assert resource.RLIM_INFINITY in (before, after) or before <= after


def test_a_service_of_many_does_not_collect_what_it_has_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A collection of all objects stops it for the longer, the more connections it has.
    """
    set_to: list[tuple[int, ...]] = []
    monkeypatch.setattr(gc, "set_threshold", lambda *some: set_to.append(some))
    switch_s = sys.getswitchinterval()
    with many_peers():
        assert 10_000 < gc.get_freeze_count()
        assert sys.getswitchinterval() < switch_s
    (new, young, old), _ = set_to
    assert new * young <= 25_000
    assert new * young * old >= 1_000_000
    assert (gc.get_threshold(), switch_s) == (set_to[1], sys.getswitchinterval())
    assert 0 == gc.get_freeze_count()


def test_a_service_has_a_loop_with_short_turns() -> None:
    """
    However many connections are ready.
    """
    loops: list[asyncio.AbstractEventLoop] = []

    async def work() -> None:
        loops.append(asyncio.get_running_loop())

    run_until_signal(work())
    assert [ServiceLoop] == [type(one) for one in loops]
