"""
Frames that a follower appends and acks in one call of the core: the master cannot tell
them from the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill
from lib.values import replace

from pystore.core.frame_step import FrameLabel, SteppedFrame
from pystore.ha.slave.backoff import BackOff
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.slave.follower import Follower, FollowerEnvironment, FollowerStatus
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.wire.codes import (
    AckFlag,
    AckStatus,
    CheckResult,
    DataFlag,
    EpochsFlag,
    MasterFlag,
)
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.effects import Send
from pystore.ha.wire.frames import (
    Body,
    Frame,
    HandshakeMaster,
    ReturnEpoch,
    TransferAck,
    TransferData,
)
from pystore.ha.wire.v3 import encode
from pystore.store.commit_log import CommitLog

EPOCH, SESSION = 3, 99
RECORDS = 60


class Stepped(V3SlaveProtocol):
    """Counts the frames in step."""

    steps = 0

    def stepped(self, frame: SteppedFrame, log: SlaveLog, now_ms: int) -> None:
        """One more."""
        self.steps += 1
        super().stepped(frame, log, now_ms)


class Unstepped(V3SlaveProtocol):
    """A link that is never in step."""

    @property
    def label(self) -> FrameLabel | None:
        """None."""
        return None


@dataclass
class Link:
    """
    What a master sends, piece by piece, and what the slave sends back.
    """

    pieces: list[bytes]
    sent: list[bytes] = field(default_factory=list)
    received: int = 0
    is_over: bool = False
    steps: int = 0
    _held: bytes = b""

    @property
    def data(self) -> memoryview:
        """What was received and not taken."""
        return memoryview(self._held)

    def take(self, size: int) -> None:
        """It was processed."""
        self._held = self._held[size:]

    def wait(self, timeout_ms: int) -> int:
        """The next piece."""
        del timeout_ms
        if not self.pieces:
            self.is_over = True
            return 0
        piece = self.pieces.pop(0)
        self._held += piece
        return len(piece)

    def send(self, data: bytes) -> None:
        """Keeps it."""
        self.sent.append(bytes(data))

    def close(self) -> None:
        """Nothing is open."""

    def end(self, pause_ms: int) -> None:
        """The link has ended: no other one follows."""
        del pause_ms
        self.is_over = True

    def acks(self) -> list[TransferAck]:
        """The acks of the slave."""
        found = []
        for one in self.sent:
            frame, _ = take_frame(memoryview(one), 1 << 20)
            if frame is not None and isinstance(frame.body, TransferAck):
                found.append(frame.body)
        return found


@pytest.fixture(scope="module")
def master(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[bytes, list[int]]]:
    """
    The bytes of a log, and where its records begin and end.
    """
    root = tmp_path_factory.mktemp("master")
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = [*fill(log, RECORDS), log.end_offset]
        yield bytes(log.writer.log.acquire(0, log.end_offset)), offsets


def begin(end: int) -> list[Body]:
    """The handshake and the epochs of the master."""
    handshake = HandshakeMaster(
        result=CheckResult.SUCCESS,
        protocol=3,
        broker_id=1,
        session_id=SESSION,
        epoch_start=0,
        min_offset=0,
        end_offset=end,
        confirm_offset=0,
        segment_size=SEGMENT,
        frame_bytes_max=1 << 20,
        heartbeat_ms=5_000,
        housekeeping_ms=20_000,
        flags=MasterFlag(0),
        redirect="",
        reason="",
    )
    epochs = ReturnEpoch(SESSION, 0, end, 1, EpochsFlag(0), ((EPOCH, 0, end),))
    return [handshake, epochs]


def block(log: bytes, at: int, until: int, confirm: int, flags: DataFlag) -> Body:
    """A block of the master's log, or a heartbeat."""
    crc, piece = 0, log[at:until]
    return TransferData(EPOCH, 0, confirm, at, until, SESSION, crc, flags, piece)


def follow(
    root: Path, pieces: list[bytes], protocol: type[V3SlaveProtocol] = Stepped
) -> tuple[Link, FollowerStatus, bytes, int]:
    """Follows until all was received; returns the log and its confirm offset, too."""
    link = Link(pieces)
    config = SlaveConfig(
        "c", "b", 2, epoch=EPOCH, incarnation=1, incarnation_bits=bytes(16)
    )
    made = protocol(config)
    with ReplicaLog(root, segment_size=SEGMENT) as log:
        environment = FollowerEnvironment(
            dial=lambda: link,
            make=lambda: made,
            now_ms=lambda: 1_000,
            pause=link.end,
            is_stopping=lambda: link.is_over,
        )
        follower = Follower(log, environment, BackOff(lambda: 0.0, 10, 100))
        follower.run()
        link.steps = getattr(made, "steps", 0)
        end = log.log().received_offset
        held = bytes(log.store.log.writer.log.acquire(0, end)) if end else b""
        return link, follower.status(), held, log.log().confirm_offset


def story(draw: random.Random, log: bytes, ends: list[int]) -> list[bytes]:
    """
    Frames of a master: blocks of some records, heartbeats, suspensions, flags. A piece
    is one, a part of one, or several.
    """
    bodies, at, confirm, is_suspended = begin(len(log)), 0, 0, False
    rest = ends[1:]
    bodies.append(block(log, 0, 0, 0, DataFlag(0)))
    while rest:
        what = draw.random()
        if is_suspended and what < 0.5:
            is_suspended = False
        if what < 0.1 or is_suspended:
            is_suspended |= what < 0.05
            flags = DataFlag.SUSPENDED if is_suspended else DataFlag(0)
            bodies.append(block(log, at, at, confirm, flags))
            continue
        count = draw.choice([1, 1, 1, 1, 2, 5])
        until, rest = rest[min(count, len(rest)) - 1], rest[count:]
        flags = DataFlag.ACK_NOW if draw.random() < 0.1 else DataFlag(0)
        flags |= DataFlag.EPOCH_BEGINS if at == 0 else DataFlag(0)
        bodies.append(block(log, at, until, confirm, flags))
        at, confirm = until, max(confirm, draw.choice([0, at, until]))
    frames = [encode(Frame(EPOCH, 77 + n, body)) for n, body in enumerate(bodies)]
    pieces: list[bytes] = []
    for frame in frames:
        what = draw.random()
        if what < 0.1 and len(pieces) > 3:
            pieces[-1] += frame
        elif what < 0.2:
            cut = draw.randrange(1, len(frame))
            pieces += [frame[:cut], frame[cut:]]
        else:
            pieces.append(frame)
    return pieces


def received(link: Link) -> list[tuple[int, int, int, int]]:
    """The acks, but for what the disk has by then."""
    return [
        (ack.received_offset, ack.echo_ms, ack.echo_end_offset, int(ack.status))
        for ack in link.acks()
    ]


@pytest.mark.parametrize("seed", range(12))
def test_frames_in_step_are_acked_as_all_others_are(
    seed: int, tmp_path: Path, master: tuple[bytes, list[int]]
) -> None:
    """
    The same acks and the same log, whatever the master sends between.
    """
    log, ends = master
    pieces = story(random.Random(seed), log, ends)

    link, status, held, confirm = follow(tmp_path / "a", list(pieces))
    other, _, plain, plain_confirm = follow(tmp_path / "b", pieces, Unstepped)

    assert link.steps > 5
    assert held == plain == log
    assert confirm == plain_confirm
    newest = dict.fromkeys(received(other))
    assert [one for one in dict.fromkeys(received(link)) if one in newest] == list(
        newest
    )
    assert status.appended_bytes == len(log)


def test_the_ack_of_a_bad_block_in_step_says_so(
    tmp_path: Path, master: tuple[bytes, list[int]]
) -> None:
    """
    And the session ends.
    """
    log, ends = master
    bad = bytearray(log)
    bad[ends[2] + 4] ^= 1
    bodies = begin(len(log))
    bodies.append(block(log, 0, 0, 0, DataFlag(0)))
    for at, until in pairwise(ends[:4]):
        flags = DataFlag(0) if at else DataFlag.EPOCH_BEGINS
        bodies.append(block(bytes(bad), at, until, 0, flags))
    pieces = [encode(Frame(EPOCH, 77, body)) for body in bodies]

    link, status, held, _ = follow(tmp_path, pieces)

    assert held == log[: ends[2]]
    last = link.acks()[-1]
    assert (last.received_offset, last.status) == (ends[2], AckStatus.BAD_CRC)
    assert "Append" in status.reason


def test_a_wish_of_the_slave_is_in_its_next_ack(
    tmp_path: Path, master: tuple[bytes, list[int]]
) -> None:
    """
    No ack of the core could say it.
    """
    log, ends = master
    config = SlaveConfig("c", "b", 2, epoch=EPOCH, incarnation=1)
    with ReplicaLog(tmp_path, segment_size=SEGMENT) as replica:
        link = V3SlaveProtocol(config)
        link.connected(replica.log(), 0)
        first = block(log, 0, ends[1], 0, DataFlag.EPOCH_BEGINS)
        for body in (*begin(len(log)), block(log, 0, 0, 0, DataFlag(0)), first):
            link.receive(memoryview(encode(Frame(EPOCH, 77, body))), 0)
            for effect in link.effects():
                if type(effect).__name__ in {"Promise", "Append"}:
                    replica.carry_out(effect)  # type: ignore[arg-type]
                    link.did(effect, replica.log(), 0)
            link.effects()
        assert link.label == FrameLabel(EPOCH, EPOCH, 0, SESSION, 1 << 20)

        link.suspend(0)

        now: FrameLabel | None = link.label
        assert now is None
        ack = link.effects()[-1]
        assert isinstance(ack, Send)
        frame, _ = take_frame(memoryview(ack.data))
        assert frame is not None
        assert isinstance(frame.body, TransferAck)
        assert AckFlag.SUSPEND in frame.body.flags
        assert replace(frame.body, flags=AckFlag(0)).received_offset == ends[1]
