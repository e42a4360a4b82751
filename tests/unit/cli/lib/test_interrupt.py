"""
A signal ends the wait for input, and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pystore.cli.lib.interrupt import interruptible


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """
    The reading and the writing end of a pipe.
    """
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_reading(number: int, pipe: tuple[int, int]) -> None:
    """
    The read ends even if there is input.
    """
    os.write(pipe[1], b"more")
    with interruptible() as interruption:
        assert b"mo" == interruption.read(pipe[0], 2)
        os.kill(os.getpid(), number)

        assert interruption.read(pipe[0], 2) is None
        assert 128 + number == interruption.exit_code


def test_a_signal_wakes_up_a_waiting_read(pipe: tuple[int, int]) -> None:
    """
    The pipe stays empty: only the signal can end the read.
    """
    with interruptible() as interruption:
        code = f"import os; os.kill({os.getpid()}, {signal.SIGINT:d})"
        with subprocess.Popen([sys.executable, "-c", code]):
            assert interruption.read(pipe[0], 1) is None


def test_the_old_handlers_are_restored() -> None:
    """
    Ctrl-C raises KeyboardInterrupt again.
    """
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with interruptible() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.SIGINT == interruption.signal_number

    assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
