"""
The network between virtual machines: streams that are late, cut in pieces, held back
by a cut link, or broken.
"""

from __future__ import annotations

import errno
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sim.world import MS, SECOND, Machine, Process, World

__all__ = ["RECORDS", "Network"]

RECORDS = "records"
"""The place of the record store."""

_SHORTEST_NS = 20_000
_RETRY_NS = 200 * MS
_BROKEN_NS = 25 * SECOND
"""After so long without an answer the system breaks a connection (keep-alive)."""


@dataclass(slots=True, eq=False)
class _End:
    """
    One end of a connection, and what is under way from it.
    """

    process: Process
    number: int
    other: _End | None = None
    is_closed: bool = False
    queue: deque[tuple[Any, ...]] = field(default_factory=deque)
    is_busy: bool = False
    stuck_since: int = 0


class Network:
    """
    Which machine reaches which, and all connections.

    Args:
        world: with its processes.

    Attributes:
        delay_ns: the longest delay of a piece.
        late_ns: the same, of what the hosts in `late` send.
        late: hosts.
    """

    def __init__(self, world: World) -> None:
        self.delay_ns = MS
        self.late_ns = 0
        self.late: set[str] = set()
        self._world = world
        self._cut: set[tuple[str, str]] = set()
        self._listening: dict[tuple[str, int], Process] = {}
        self._ends: dict[tuple[Process, int], _End] = {}
        self._numbers = itertools.count(1)
        self._machines: dict[str, Machine] = {}
        world.sent = self._sent

    def add(self, process: Process) -> None:
        """
        A process begins to use the network.
        """
        self._machines[process.machine.host] = process.machine
        process.ended.append(lambda: self._ended(process))

    # -- links -------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """
        From now on nothing gets from one host to the other; the way back is untouched.
        """
        self._cut.add((source, target))

    def join(self, source: str, target: str) -> None:
        """
        Ends a `cut`.
        """
        self._cut.discard((source, target))

    def heal(self) -> None:
        """
        Every host reaches every other.
        """
        self._cut.clear()

    def tear(self, host: str, heard_by: str) -> None:
        """
        Breaks the streams of a host; only one of its ends hears of it.
        """
        for end in list(self._ends.values()):
            other = end.other
            if end.process.machine.host != host or other is None or other.is_closed:
                continue
            for one in (end, other):
                if one.process.machine.host == heard_by:
                    one.process.deliver("broken", one.number, errno.ECONNRESET)
                one.queue.clear()
                one.is_closed = True
            self._ends.pop((end.process, end.number), None)

    def reaches(self, source: str, target: str) -> bool:
        """
        Whether what one sends gets to the other.
        """
        return (source, target) not in self._cut

    def delay(self, source: str = "") -> int:
        """
        Draws how long one piece is under way from a host.
        """
        longest = self.delay_ns
        if source in self.late:
            longest = max(longest, self.late_ns)
        return self._world.draw.randint(_SHORTEST_NS, longest)

    # -- what processes send -------------------------------------------------------

    def _sent(self, process: Process, kind: str, number: int, *more: Any) -> None:
        if kind == "listen":
            self._listening[process.machine.host, number] = process
        elif kind == "unlisten":
            self._listening.pop((process.machine.host, number), None)
        elif kind == "connect":
            end = self._ends[process, number] = _End(process, number)
            host, port, mine = more
            self._world.after(
                self.delay(), lambda: self._connect(end, host, port, mine)
            )
        else:
            end_or_none = self._ends.get((process, number))
            if end_or_none is not None:
                self._put(end_or_none, (kind, *more))

    def _connect(self, end: _End, host: str, port: int, mine: int) -> None:
        source = end.process
        if end.is_closed or not source.is_alive:
            return
        here = source.machine.host
        machine = self._machines.get(host)
        is_up = machine is not None and machine.is_up
        if not is_up or not self.reaches(here, host) or not self.reaches(host, here):
            # The system tries again by itself.
            self._world.after(SECOND, lambda: self._connect(end, host, port, mine))
            return
        target = self._listening.get((host, port))
        if target is None or not target.is_alive:
            source.deliver("broken", end.number, errno.ECONNREFUSED)
            self._forget(end)
            return
        other = _End(target, -next(self._numbers), end)
        end.other = other
        self._ends[target, other.number] = other
        target.deliver("accept", other.number, port, here, mine)
        source.deliver("connected", end.number)

    # -- pieces --------------------------------------------------------------------

    def _put(self, end: _End, message: tuple[Any, ...]) -> None:
        if message[0] in ("close", "reset"):
            self._forget(end)
        if end.other is None:
            end.is_closed = True
            return
        end.queue.append(message)
        if not end.is_busy:
            end.is_busy = True
            end.stuck_since = self._world.now_ns
            here, there = end.process.machine.host, end.other.process.machine.host
            # What is under way arrives, also if the link is cut meanwhile.
            sure = int(self.reaches(here, there))
            self._world.after(self._delay(end), lambda: self._move(end, sure))

    def _delay(self, end: _End) -> int:
        return self.delay(end.process.machine.host)

    def _move(self, end: _End, sure: int = 0) -> None:
        other = end.other
        assert other is not None
        here, there = end.process.machine, other.process.machine
        now = self._world.now_ns
        if sure and end.queue and there.is_up:
            kind, *more = end.queue.popleft()
            self._arrive(end, other, kind, *more)
        if not there.is_up or not self.reaches(here.host, there.host):
            if now - end.stuck_since > _BROKEN_NS:
                self._break(end, errno.ETIMEDOUT)
                return
            self._world.after(_RETRY_NS, lambda: self._move(end))
            return
        end.stuck_since = now
        draw = self._world.draw
        while end.queue:
            kind, *more = end.queue.popleft()
            if kind == "data" and len(more[0]) > 1 and not draw.randrange(4):
                # In two pieces.
                at = draw.randrange(1, len(more[0]))
                end.queue.appendleft((kind, more[0][at:]))
                self._arrive(end, other, kind, more[0][:at])
                break
            self._arrive(end, other, kind, *more)
        if end.queue:
            self._world.after(self._delay(end), lambda: self._move(end))
        else:
            end.is_busy = False

    def _arrive(self, end: _End, other: _End, kind: str, *more: Any) -> None:
        is_gone = other.is_closed or not other.process.is_alive
        if kind == "reset" and not is_gone:
            other.process.deliver("broken", other.number, errno.ECONNRESET)
            self._forget(other)
        elif kind in ("fin", "close") and not is_gone:
            other.process.deliver("fin", other.number)
        elif is_gone and kind == "data":
            # The system of the other machine answers for what is not there.
            self._world.after(self.delay(), lambda: self._break(end, errno.ECONNRESET))
        elif not is_gone:
            other.process.deliver(kind, other.number, *more)

    def _break(self, end: _End, error: int) -> None:
        end.queue.clear()
        end.is_busy = False
        if not end.is_closed:
            end.process.deliver("broken", end.number, error)
            self._forget(end)

    def _forget(self, end: _End) -> None:
        end.is_closed = True
        self._ends.pop((end.process, end.number), None)

    def _ended(self, process: Process) -> None:
        for place, owner in list(self._listening.items()):
            if owner is process:
                del self._listening[place]
        for (owner, _), end in list(self._ends.items()):
            if owner is not process:
                continue
            if process.machine.is_up:
                self._put(end, ("close",))
            else:
                # Nothing is said: the peers find out by themselves.
                end.queue.clear()
                self._forget(end)
                self._find_out(end)

    def _find_out(self, end: _End) -> None:
        other = end.other
        if other is not None:
            self._world.after(_BROKEN_NS, lambda: self._break(other, errno.ETIMEDOUT))
