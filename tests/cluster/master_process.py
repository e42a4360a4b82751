"""
A master in a process of its own, over a real store; it may be killed at any moment.

As a script: ``python master_process.py STORE EPOCH PORT BYTES_PER_SECOND``. It begins
the epoch, prints its port, and obeys lines on stdin: a number is how many records to
append, answered by the log's end; the end of stdin is the end of the mastership. Broker
2 is welcome in its set.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

# A script finds what is beside it, not what is above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from lib.ha.master_fixture import Controller
from lib.store.stores import SEGMENT, fill

from pystore.ha.master.config import MasterConfig
from pystore.ha.master.service import MasterService, Mastership
from pystore.replicaset import Member
from pystore.store.commit_log import CommitLog

__all__ = ["MasterProcess"]

_DRAIN_MS = 10_000
_HEARTBEAT_MS = 200


class MasterProcess:
    """
    The script as a process. A context manager, which kills it if it still runs.

    Args:
        root: of its store.
        epoch: of its mastership.
        port: where it listens; 0: any that is free.
        bytes_per_second: to a slave; 0: as many as there are.

    Attributes:
        port: where it listens.
    """

    def __init__(
        self, root: Path, epoch: int, port: int = 0, bytes_per_second: int = 0
    ) -> None:
        numbers = (epoch, port, bytes_per_second)
        self._child = subprocess.Popen(
            [sys.executable, __file__, root, *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.port = self._answer()

    def __enter__(self) -> MasterProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def append(self, count: int) -> int:
        """
        Appends so many records, and returns the end of the log.
        """
        assert self._child.stdin is not None
        self._child.stdin.write(b"%d\n" % count)
        self._child.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """
        Ends the mastership once slaves have the rest.
        """
        self._child.communicate()
        assert 0 == self._child.returncode

    def pause(self) -> None:
        """
        It stands still; its connections stay open.
        """
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """
        It goes on.
        """
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """
        Kills it by SIGKILL; again is fine, and after `close`.
        """
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            assert stream is not None
            stream.close()

    def _answer(self) -> int:
        assert self._child.stdout is not None
        return int(self._child.stdout.readline())


def _serve(root: Path, epoch: int, port: int, bytes_per_second: int) -> None:
    controller = Controller()
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.begin_epoch(epoch)
        ship = Mastership(
            config=MasterConfig(
                "c", "b", 1, epoch, SEGMENT, heartbeat_ms=_HEARTBEAT_MS
            ),
            me=Member(1),
            agreed=controller.agreed,
            broker_ids=lambda: frozenset({1, 2, 3}),
            ask=controller.ask,
            port=port,
            bytes_per_second=bytes_per_second,
        )
        with MasterService(log, ship) as service:
            print(service.address[1], flush=True)
            for line in sys.stdin:
                fill(log, int(line))
                print(log.end_offset, flush=True)
            service.close(_DRAIN_MS)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), *map(int, sys.argv[2:]))
