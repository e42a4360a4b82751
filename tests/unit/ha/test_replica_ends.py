"""
The end of a role beside a peer that is stopped: each call returns within a second or
so, whatever the peer holds back (B13).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lib.ha.master_bench import EMPTY, ack, shake
from lib.ha.replica_fixture import ReplicaStage
from lib.ha.scripted_v3_master import DATA, EPOCHS, SHAKE
from lib.store.stores import SEGMENT, message
from lib.values import replace

from pystore.clocks import clock_ms
from pystore.events.event import Event
from pystore.events.node_events import LinkClosed
from pystore.ha.decision import Decision
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.ha.slave.backoff import BackOffConfig
from pystore.ha.wire.codes import AckFlag, DataFlag, SlaveFlag, State
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Body, Frame, HandshakeMaster
from pystore.ha.wire.legacy import LegacyAck, LegacyHandshake, encode_legacy
from pystore.ha.wire.v3 import encode
from pystore.replicaset import AgreedSet, Member

LIMIT_MS = 3_000
"""
A second, and what a busy machine may add. Without a limit each case takes 5 to 90 s.
"""

BACKLOG_BYTES = 8 << 20


class StoppedSlave:
    """
    A slave of broker id 2 whose buffers are small, and that reads no more than a test
    makes it read. A context manager.

    Args:
        address: ``HOST:PORT`` of the master.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(60)
        self.socket.connect((host, int(port)))
        self.session_id = 0

    def __enter__(self) -> StoppedSlave:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, body: Body) -> None:
        """Sends a frame of the only epoch."""
        self.socket.sendall(encode(Frame(1, 0, body)))

    def greet(self, **changes: object) -> None:
        """Shakes hands, and reads the answer alone."""
        fields = {"end_offset": 0, "flushed_offset": 0, "last_epoch": -1} | changes
        self.say(shake(segment_size=SEGMENT, **fields))
        data = b""
        while (frame := take_frame(memoryview(data), 1 << 20)[0]) is None:
            data += self.socket.recv(1)
        assert isinstance(frame.body, HandshakeMaster)
        assert frame.body.reason == ""
        self.session_id = frame.body.session_id


def before_the_handshake(slave: StoppedSlave) -> None:
    """It connected and says nothing."""
    assert slave.session_id == 0


def with_half_a_handshake(slave: StoppedSlave) -> None:
    """Its protocol is known, and the frame is not whole."""
    slave.socket.sendall(encode(Frame(1, 0, shake(segment_size=SEGMENT)))[:40])


def in_the_handshake(slave: StoppedSlave) -> None:
    """It never confirms where it resumes."""
    slave.greet()


def in_transfer(slave: StoppedSlave) -> None:
    """The buffers of both ends are full."""
    slave.greet()
    slave.say(replace(EMPTY, session_id=slave.session_id))


def suspended(slave: StoppedSlave) -> None:
    """It gets heartbeats, and reads none."""
    slave.greet(flags=SlaveFlag.START_SUSPENDED | SlaveFlag.LEARNER)
    slave.say(replace(EMPTY, session_id=slave.session_id))
    slave.say(ack(0, session_id=slave.session_id, flags=AckFlag.SUSPEND))


def in_a_legacy_transfer(slave: StoppedSlave) -> None:
    """As a Java slave that is stopped."""
    slave.socket.sendall(encode_legacy(LegacyHandshake(2)))
    slave.socket.sendall(encode_legacy(LegacyAck(0)))


STATES = (
    before_the_handshake,
    with_half_a_handshake,
    in_the_handshake,
    in_transfer,
    suspended,
    in_a_legacy_transfer,
)


def follow_another(master: Replica) -> None:
    """The controller elected another master."""
    elsewhere = Member(3)
    master.decided(Decision(2, elsewhere, "127.0.0.1:9"))
    standing = master.wait_for(lambda it: it.role is Role.FOLLOWING, 60_000)
    assert standing.role is Role.FOLLOWING


def lead_again(master: Replica) -> None:
    """The controller elected this master for another epoch."""
    agreed = replace(master.standing().agreed, set_epoch=99)
    master.decided(Decision(2, master.me, "", agreed))
    standing = master.wait_for(lambda it: (it.role, it.epoch) == (Role.MASTER, 2))
    assert standing.epoch == 2


def lead_in_its_place(slave: Replica) -> None:
    """The controller elected this slave."""
    agreed = AgreedSet(frozenset({slave.me}), 99)
    slave.decided(Decision(2, slave.me, "", agreed))
    standing = slave.wait_for(lambda it: it.role is Role.MASTER, 60_000)
    assert standing.role is Role.MASTER


def have_no_master(master: Replica) -> None:
    """An election is under way."""
    master.decided(Decision(2))
    standing = master.wait_for(lambda it: it.role is Role.IDLE, 60_000)
    assert standing.role is Role.IDLE


def close(master: Replica) -> None:
    """The process ends."""
    master.close()


def close_after_a_drain(master: Replica) -> None:
    """The slaves may take half a second longer."""
    master.close(500)


CALLS = (follow_another, lead_again, have_no_master, close, close_after_a_drain)


@pytest.fixture
def stage(tmp_path: Path) -> ReplicaStage:
    """No replica has started yet."""
    return ReplicaStage(tmp_path)


def lead(stage: ReplicaStage) -> tuple[Replica, str]:
    """A master whose log does not fit into the buffers of a link, and its address."""
    first = stage.start(1)
    address = stage.elect(1, first).address
    batch = [message(1, size=3_000)] * 10
    while first.append(batch, Ack.LEADER).appended.end < BACKLOG_BYTES:
        pass
    return first, address


class StoppedMaster:
    """
    A master of broker id 3 and epoch 1 that says a few frames and nothing more. A
    context manager.

    Args:
        frames: of the master.
    """

    def __init__(self, *frames: Body) -> None:
        self._frames = frames
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.address = f"{host}:{port}"
        self._links: list[socket.socket] = []
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> StoppedMaster:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for link in self._links:
            link.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener is shut down
            while True:
                link, _ = self._listener.accept()
                self._links.append(link)
                for frame in self._frames:
                    link.sendall(encode(Frame(1, 0, frame)))
                self._has_begun.set()

    def wait(self) -> None:
        """Waits until it has said everything."""
        assert self._has_begun.wait(60)


SHAKEN = replace(SHAKE, broker_id=3, segment_size=SEGMENT, epoch_start=0, end_offset=0)
NO_EPOCHS = replace(EPOCHS, end_offset=0, entries_total=1, entries=((1, 0, 0),))
HEARTBEAT = replace(DATA, epoch=1, epoch_start=0, end_offset=0)
PAUSE = replace(HEARTBEAT, flags=DataFlag.SUSPENDED)

SPEECHES: list[tuple[State, tuple[Body, ...]]] = [
    (State.HANDSHAKE, ()),
    (State.HANDSHAKE, (SHAKEN,)),
    (State.TRANSFER, (SHAKEN, NO_EPOCHS, HEARTBEAT)),
    (State.SUSPEND, (SHAKEN, NO_EPOCHS, PAUSE)),
]


def wait_until_blocked(master: Replica) -> None:
    """The link has begun, and what it sends has filled the buffers."""
    service = master._service
    assert service is not None
    until_ms = clock_ms() + 60_000
    while not service.links():
        assert clock_ms() < until_ms
        service.monitor.rest(1)
    service.monitor.rest(200)


@contextlib.contextmanager
def within_the_limit() -> Iterator[None]:
    """What is inside takes a second or so."""
    began_ms = clock_ms()
    yield
    assert clock_ms() - began_ms < LIMIT_MS


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", STATES)
def test_a_stopped_slave_does_not_hold_the_end_of_a_mastership(
    stage: ReplicaStage,
    state: Callable[[StoppedSlave], None],
    call: Callable[[Replica], None],
) -> None:
    """B13: each link is hung up after a short drain."""
    with stage:
        first, address = lead(stage)
        with StoppedSlave(address) as slave:
            state(slave)
            wait_until_blocked(first)
            with within_the_limit():
                call(first)


@pytest.mark.parametrize("call", [follow_another, close])
def test_a_slow_reader_does_not_hold_the_end_of_a_mastership(
    stage: ReplicaStage, call: Callable[[Replica], None]
) -> None:
    """B13: it takes 2 kB a second, so each call of the system makes progress."""
    with stage:
        first, address = lead(stage)
        is_over = threading.Event()
        with StoppedSlave(address) as slave:
            in_transfer(slave)

            def read_slowly() -> None:
                with contextlib.suppress(OSError):  # the link is hung up
                    while not is_over.wait(0.1) and slave.socket.recv(200):
                        pass

            reader = threading.Thread(target=read_slowly)
            reader.start()
            wait_until_blocked(first)
            with within_the_limit():
                call(first)
            is_over.set()
            reader.join()


@pytest.mark.parametrize("call", [lead_in_its_place, have_no_master, close])
@pytest.mark.parametrize(("state", "frames"), SPEECHES)
def test_a_stopped_master_does_not_hold_the_end_of_following(
    stage: ReplicaStage,
    state: State,
    frames: tuple[Body, ...],
    call: Callable[[Replica], None],
) -> None:
    """B13: whatever the slave waits for."""
    with stage, StoppedMaster(*frames) as master:
        first = stage.start(1)
        first.decided(Decision(1, Member(3), master.address))
        first.wait_for(lambda it: it.role is Role.FOLLOWING)
        master.wait()
        following = first._following
        assert following is not None
        first.wait_for(lambda _: following.status().state is state)
        assert state is following.status().state
        with within_the_limit():
            call(first)


@pytest.mark.parametrize("call", [lead_in_its_place, have_no_master, close])
def test_a_master_that_is_away_does_not_hold_the_end_of_following(
    stage: ReplicaStage, call: Callable[[Replica], None]
) -> None:
    """B13: the slave waits between two links, for an hour."""
    with stage:
        first = stage.start(1, pace=BackOffConfig(3_600_000, 3_600_000))
        first.decided(Decision(1, Member(3), "127.0.0.1:9"))
        stage.wait_until(first, lambda it: "cannot connect" in it.problem)
        with within_the_limit():
            call(first)


def test_many_stopped_slaves_are_hung_up_at_once(stage: ReplicaStage) -> None:
    """B13: the limit is that of the mastership, not that of a link."""
    with stage, contextlib.ExitStack() as open_slaves:
        first, address = lead(stage)
        for number in range(20):
            slave = open_slaves.enter_context(StoppedSlave(address))
            if number % 2:
                slave.greet(flags=SlaveFlag.LEARNER, broker_id=2 + number % 2)
                slave.say(replace(EMPTY, session_id=slave.session_id))
        wait_until_blocked(first)
        with within_the_limit():
            follow_another(first)


def test_the_role_is_pending_while_the_old_one_ends(stage: ReplicaStage) -> None:
    """
    RMQ-R160: a caller sees at once that the replica is no master any more; here, while
    the link of a slave ends.
    """
    roles: list[Role] = []

    def hear(event: Event) -> None:
        if isinstance(event, LinkClosed) and "shut" in event.reason:
            roles.append(first.standing().role)

    with stage:
        first = stage.start(1, on_event=hear)
        address = stage.elect(1, first).address
        with StoppedSlave(address) as slave:
            in_transfer(slave)
            wait_until_blocked(first)
            have_no_master(first)

    assert [Role.PENDING] == roles
