"""
A network of streams and messages that are late, lost, doubled, cut in pieces.

Streams are as TCP's: bytes arrive in order, in pieces of any size, or not at all. A
partition holds them back; whether the ends hear of a broken stream is chance, so a
stream may stay open at one end for as long as its patience lasts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from sim.clock import Clock

__all__ = ["CONTROLLER", "RECORDS", "Network", "Pipe", "Stream"]

CONTROLLER = 0
"""The place of the first controller; the others are below it, brokers above."""

RECORDS = -10
"""The place of the record store."""

_RETRY_MS = 200


@dataclass(slots=True)
class Weather:
    """
    What the network is like.

    Attributes:
        delay_ms: the longest delay of a piece.
        loss: how many of a hundred messages to or from the controller get lost.
        doubled: how many of a hundred arrive twice.
        late_ms: the longest delay of a message to the controller.
    """

    delay_ms: int = 3
    loss: int = 0
    doubled: int = 0
    late_ms: int = 5


class Network:
    """
    Which process reaches which.

    Args:
        clock: virtual time.
        random: chance.
    """

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.weather = Weather()
        self._blocked: set[tuple[int, int]] = set()
        self.streams: list[Stream] = []

    def reaches(self, source: int, target: int) -> bool:
        """
        Whether what one sends gets to the other.
        """
        return (source, target) not in self._blocked

    def block(self, source: int, target: int) -> None:
        """
        From now on nothing gets from one to the other; the way back is untouched.
        """
        self._blocked.add((source, target))

    def partition(self, *sides: set[int]) -> None:
        """
        Nothing gets from one side to another.
        """
        for side in sides:
            for other in sides:
                if side is not other:
                    self._blocked.update((a, b) for a in side for b in other)

    def heal(self) -> None:
        """
        All processes reach each other.
        """
        self._blocked.clear()

    def message(
        self,
        source: int,
        target: int,
        event: Callable[[], None],
        *,
        may_double: bool = True,
    ) -> None:
        """
        Carries a message that may get lost, come late, or come twice.
        """
        weather, random = self.weather, self.random
        if not self.reaches(source, target) or random.randrange(100) < weather.loss:
            return
        self.clock.after(random.randint(1, weather.late_ms), event)
        if may_double and random.randrange(100) < weather.doubled:
            self.clock.after(random.randint(1, 4 * weather.late_ms), event)

    def connect(self, slave: int, master: int) -> Stream | None:
        """
        Opens a stream, if both ways are free.
        """
        if not (self.reaches(slave, master) and self.reaches(master, slave)):
            return None
        stream = Stream(self, slave, master)
        self.streams = [one for one in self.streams if not one.is_gone]
        self.streams.append(stream)
        return stream

    def break_streams(self, *ids: int, heard_by: int | None = None) -> None:
        """
        Breaks the streams between these, or of this one; that end hears of it, or
        each by chance.
        """
        for stream in self.streams:
            ends = {stream.slave, stream.master}
            if ends >= set(ids):
                stream.tear(heard_by)


@dataclass(slots=True)
class Pipe:
    """
    One direction of a stream.

    Attributes:
        network: whose.
        source: the sender.
        target: the receiver.
        receive: takes a piece; set by the receiver.
        lost: says that the stream is gone; likewise.
        in_flight: bytes that are under way.
    """

    network: Network
    source: int
    target: int
    receive: Callable[[bytes], None] = lambda _: None
    lost: Callable[[], None] = lambda: None
    in_flight: int = 0
    is_open: bool = True
    _pieces: deque[bytes] = field(default_factory=deque)
    _last: int = 0

    def send(self, data: bytes) -> None:
        """
        Sends bytes, in one piece or in several.
        """
        if not self.is_open:
            return
        random, clock = self.network.random, self.network.clock
        self.in_flight += len(data)
        if len(data) > 1 and random.random() < 0.15:
            cut = random.randrange(1, len(data))
            pieces = [data[:cut], data[cut:]]
        else:
            pieces = [data]
        for piece in pieces:
            self._pieces.append(piece)
            delay = random.randint(1, self.network.weather.delay_ms)
            # In order, whatever the delays.
            self._last = max(self._last, clock.now + delay)
            clock.at(self._last, self._arrive)

    def end(self, delay: int) -> None:
        """
        The receiver hears that the stream is over, behind what is under way.
        """
        clock = self.network.clock
        self._last = max(self._last, clock.now + delay)
        clock.at(self._last, self._end)

    def drop(self) -> None:
        """
        What is under way is gone, and nothing comes any more.
        """
        self.is_open = False
        self._pieces.clear()
        self.in_flight = 0

    def _arrive(self) -> None:
        if not self._pieces:
            return
        if not self.network.reaches(self.source, self.target):
            self._last = self.network.clock.now + _RETRY_MS
            self.network.clock.at(self._last, self._arrive)
            return
        piece = self._pieces.popleft()
        self.in_flight -= len(piece)
        self.receive(piece)

    def _end(self) -> None:
        if not self.network.reaches(self.source, self.target):
            return
        if self._pieces:
            self.network.clock.after(_RETRY_MS, self._end)
            return
        self.drop()
        self.lost()


class Stream:
    """
    A connection of a slave to a master.

    Attributes:
        up: from the slave to the master.
        down: from the master to the slave.
    """

    def __init__(self, network: Network, slave: int, master: int) -> None:
        self.network = network
        self.slave, self.master = slave, master
        self.up = Pipe(network, slave, master)
        self.down = Pipe(network, master, slave)

    @property
    def is_gone(self) -> bool:
        """
        Whether neither end has it open.
        """
        return not (self.up.is_open or self.down.is_open)

    def close(self, own: Pipe, other: Pipe) -> None:
        """
        One end closes: what it sent may arrive yet, what comes is not taken.

        Args:
            own: what that end sends.
            other: what it receives.
        """
        other.drop()
        if own.is_open:
            own.end(1)
            own.is_open = False

    def tear(self, heard_by: int | None) -> None:
        """
        The stream is torn: both lose what is under way; who hears of it is chance,
        unless it is said.
        """
        random, clock = self.network.random, self.network.clock
        for pipe in (self.up, self.down):
            lost, hears = pipe.lost, random.random() < 0.7
            pipe.drop()
            if hears if heard_by is None else pipe.target == heard_by:
                clock.after(random.randint(1, 500), lost)
