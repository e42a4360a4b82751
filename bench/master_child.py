"""
A master in a process of its own: a store, a service, appenders.

Usage: master_child.py STORE SEGMENT BLOCK_BYTES; then it executes commands
(`child.py`). The controller is in this process, too, and agrees to every change of the
SyncStateSet.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Iterator

from child import serve
from load import Load
from machine import anonymous_bytes
from tls_files import server_tls
from writers import WAYS

from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.config import MasterConfig
from pystore.ha.master.service import MasterService, Mastership
from pystore.replicaset import AgreedSet, Member
from pystore.store.commit_log import CommitLog

__all__ = ["EPOCH"]

EPOCH = 1
_SLAVES_MAX = 16
_WAIT_MS = 60_000


class Master:
    """
    The commands; times are in seconds of the machine's clocks.

    Args:
        root: of its store; a new store gets its first epoch.
        segment: bytes of one of its files.
        block_bytes: the longest block in a frame.
    """

    def __init__(self, root: str, segment: int, block_bytes: int) -> None:
        self._log = CommitLog(root, segment_size=segment)
        if self._log.epochs.last_epoch < EPOCH:
            self._log.begin_epoch(EPOCH)
        self._agreed = AgreedSet(frozenset({Member(1)}), 1)
        ship = Mastership(
            config=MasterConfig(
                "c", "b", 1, EPOCH, segment, block_bytes_max=block_bytes
            ),
            me=Member(1),
            agreed=self._agreed,
            broker_ids=lambda: frozenset(range(1, 2 + _SLAVES_MAX)),
            ask=self._agree,
            tls=server_tls(),
        )
        self._service = MasterService(self._log, ship)

    def _agree(self, change: SetChange) -> AgreedSet:
        self._agreed = AgreedSet(
            change.members, self._agreed.set_epoch + 1, change.candidates
        )
        return self._agreed

    def close(self) -> None:
        """
        Stops serving.
        """
        self._service.close()
        self._log.close()

    def address(self) -> tuple[str, int]:
        """
        The address at which it listens.
        """
        return self._service.address

    def fill(self, size_bytes: int) -> int:
        """
        Appends bodies of this total size, and returns the end of the log.
        """
        WAYS["columns"](self._log, Load.of(size_bytes, 1024))
        self._log.sync()
        return self._log.end_offset

    def append(self, ack: str, threads: int, records: int, window: int = 1) -> float:
        """
        Appends messages of 1 KiB from threads, and returns the seconds. A thread has at
        most *window* appends without an ack.
        """
        message = Load(1, 1).messages[0]
        log, service, wanted = self._log, self._service, Ack(ack)
        gate = threading.Barrier(threads + 1)
        reached = [0] * threads

        def alone() -> Iterator[AckResult]:
            _, settled = service.append(message, wanted, _WAIT_MS)
            yield settled

        def together() -> Iterator[AckResult]:
            futures = [service.submit(message, wanted) for _ in range(window)]
            yield from service.wait_all(futures, _WAIT_MS)

        def work(number: int) -> None:
            rounds = range(records // threads // window)
            append = alone if window == 1 else together
            gate.wait()
            if wanted is Ack.LEADER:
                for _ in rounds:
                    log.append(message)
                reached[number] = len(rounds)
                return
            for _ in rounds:
                for settled in append():
                    reached[number] += settled.outcome is AckOutcome.REACHED

        workers = [
            threading.Thread(target=work, args=(number,)) for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        gate.wait()
        start = time.perf_counter()
        for worker in workers:
            worker.join()
        taken = time.perf_counter() - start
        assert sum(reached) == records, f"{sum(reached)} of {records} were acked"
        return taken

    def await_appends(self, ack: str, tasks: int, records: int) -> float:
        """
        The same from coroutines of one thread, each with one append under way.
        """
        message = Load(1, 1).messages[0]
        service, wanted = self._service, Ack(ack)

        async def work() -> int:
            reached = 0
            for _ in range(records // tasks):
                settled = await service.submit(message, wanted)
                reached += settled.outcome is AckOutcome.REACHED
            return reached

        async def run() -> float:
            start = time.perf_counter()
            reached = sum(await asyncio.gather(*(work() for _ in range(tasks))))
            taken = time.perf_counter() - start
            assert reached == records, f"{reached} of {records} were acked"
            return taken

        return asyncio.run(run())

    def latencies(self, ack: str, records: int) -> list[float]:
        """
        The same from one thread: the median and the 99th of 100, in seconds.
        """
        message = Load(1, 1).messages[0]
        log, service, wanted = self._log, self._service, Ack(ack)
        taken: list[float] = []
        for _ in range(records):
            start = time.perf_counter()
            if wanted is Ack.LEADER:
                log.append(message)
            else:
                _, settled = service.append(message, wanted, _WAIT_MS)
                assert settled.outcome is AckOutcome.REACHED, settled
            taken.append(time.perf_counter() - start)
        return [statistics.median(taken), statistics.quantiles(taken, n=100)[98]]

    def in_sync(self, replicas: int) -> int:
        """
        Waits until the SyncStateSet has this size, with the master.
        """
        while len(self._service.monitor.set_now.members) != replicas:
            time.sleep(0.001)
        return replicas

    def caught_up(self, links: int) -> float:
        """
        Waits until this number of links have acknowledged everything; returns the time.
        """
        end = self._log.end_offset
        while True:
            found = self._service.links()
            if len(found) == links and all(one.acked_offset == end for one in found):
                return time.monotonic()
            time.sleep(0.0002)

    def without_links(self) -> None:
        """
        Waits until the last link has ended.
        """
        while self._service.links():
            time.sleep(0.001)


def main() -> None:
    """
    Opens the store, serves, and executes commands.
    """
    root, segment, block_bytes = sys.argv[1:]
    master = Master(root, int(segment), int(block_bytes))
    try:
        serve(
            {
                "address": master.address,
                "fill": master.fill,
                "append": master.append,
                "await_appends": master.await_appends,
                "latencies": master.latencies,
                "in_sync": master.in_sync,
                "caught_up": master.caught_up,
                "without_links": master.without_links,
                "processor": time.process_time,
                "memory": anonymous_bytes,
            }
        )
    finally:
        master.close()


if __name__ == "__main__":
    main()
