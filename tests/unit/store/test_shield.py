"""
Ctrl-C at any instruction of opening and closing leaves no store that is locked.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
from lib.interrupts import alarms
from lib.store.stores import SEGMENT, bodies, fill, message

from pystore.store.commit_log import CommitLog
from pystore.store.handle import StoreHandle
from pystore.store.maintenance import open_log, open_store
from pystore.store.shield import ShieldedCall, settle
from pystore.store.store import Store

SEED = int(os.environ.get("PS_SEED", random.randrange(2**32)))
OPENINGS = int(os.environ.get("PS_INTERRUPTS", "120"))

OPENERS: dict[str, Callable[..., StoreHandle]] = {
    "CommitLog": partial(CommitLog, segment_size=SEGMENT),
    "Store": partial(Store, segment_size=SEGMENT),
    "open_log": partial(open_log, segment_size=SEGMENT),
    "open_store": partial(open_store, segment_size=SEGMENT),
    "log reader": partial(CommitLog, mode="r"),
    "store reader": partial(Store, mode="r"),
}


# An interrupt may hit just when the handle was made and has no name yet.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("name", OPENERS)
def test_a_store_opens_again_after_an_interrupt_at_any_instant(
    tmp_path: Path, name: str
) -> None:
    """
    The traceback is kept, as a notebook does: it keeps all that its frames name.
    """
    seed = f"{SEED}/{name}"
    print(f"PS_SEED={SEED}")
    chance = random.Random(seed)
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 5)
    kept: list[BaseException] = []
    with alarms() as alarm:
        for _ in range(OPENINGS // len(OPENERS) + 1):
            handle: StoreHandle | None = None
            try:
                alarm.arm(chance.uniform(1e-6, 0.012))
                handle = OPENERS[name](root)
                handle.close()
                alarm.disarm()  # here, since an interrupt behind it would end the run
            except KeyboardInterrupt as error:
                kept = [error]
            alarm.disarm()
            if handle is not None:
                handle.close()
            with Store(root) as store:
                assert (0, 2) == store.queue_range("Topic", 0)
            kept.clear()

    with CommitLog(root) as log:
        assert [message(i).body for i in range(5)] == bodies(log)


def test_interrupted_work_is_undone_before_the_next_call_of_its_key() -> None:
    """
    The interrupt is raised at once, while the work still runs.
    """
    began, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> str:
        began.set()
        assert may_end.wait(30)
        done.append("work")
        return "result"

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    call = ShieldedCall(work, "key", done.append)
    try:
        threading.Thread(target=_alarm_after, args=(began,)).start()
        with pytest.raises(KeyboardInterrupt):
            call.run()
        assert [] == done
        call.abandon()
        may_end.set()
        settle("key")
    finally:
        signal.signal(signal.SIGALRM, before)

    assert ["work", "result"] == done


def _alarm_after(began: threading.Event) -> None:
    assert began.wait(30)
    os.kill(os.getpid(), signal.SIGALRM)


def test_work_that_ended_is_undone_by_its_abandonment() -> None:
    """
    An interrupt between the end of the work and the caller's next instruction.
    """
    undone: list[str] = []
    call = ShieldedCall(lambda: "result", "key", undone.append)
    assert "result" == call.run()
    call.abandon()
    settle("key")

    assert ["result"] == undone


def test_work_that_did_not_begin_is_prevented() -> None:
    """
    An interrupt before the thread began.
    """
    done: list[str] = []
    call = ShieldedCall[None](lambda: done.append("work"), "key", lambda _: None)
    call.abandon()
    settle("key")

    assert [] == done


def test_an_error_of_the_work_is_raised_and_undoes_nothing() -> None:
    """
    Work that failed leaves nothing to undo.
    """
    undone: list[object] = []

    def fail() -> None:
        raise OSError(5, "broken")

    call = ShieldedCall(fail, "key", undone.append)
    with suppress(OSError):
        call.run()
        raise AssertionError
    call.abandon()
    settle("key")

    assert [] == undone


def test_work_of_another_thread_is_done_in_it() -> None:
    """
    No signal handler runs there.
    """
    found: list[int] = []

    def run() -> None:
        found.append(ShieldedCall(threading.get_ident, "key").run())
        found.append(threading.get_ident())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert found[0] == found[1]
