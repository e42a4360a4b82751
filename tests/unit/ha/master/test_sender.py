"""
An appender sends for a sleeping sender, and no frame is lost or reordered.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from pystore.clocks import clock_ms
from pystore.ha.master.notifier import Notifier
from pystore.ha.master.sender import Output, Sender
from pystore.ha.master.transport import GATHER_FRAMES, LinkLost, SlaveSocket, listen

WAIT_S = 20
FAR_MS = 60_000


class Stage:
    """A sender over a real link, whose frames a test puts into a list."""

    def __init__(self, wire: SlaveSocket, peer: socket.socket) -> None:
        self.notifier = Notifier()
        self.peer = peer
        self.wire = wire
        self.frames: list[bytes] = []
        self.is_over = False
        self.is_locked = False
        self.far_ms = FAR_MS
        self.error: Exception | None = None
        self.gatherers: list[str] = []
        self.looked = threading.Semaphore(0)
        self.ended: list[Exception | None] = []
        log = memoryview(b"")
        self.sender = Sender(wire, self.notifier, lambda *_: log, clock_ms, self.gather)
        self.thread = threading.Thread(target=self._run, name="sender")

    def gather(self, bytes_max: int, *, is_patient: bool) -> Output | None:
        """What there is, as many frames as a link gathers."""
        assert bytes_max > 0
        if self.is_locked and not is_patient:
            return None
        self.gatherers.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error
        frames: list[bytes] = []
        while self.frames and len(frames) < GATHER_FRAMES:
            frames.append(self.frames.pop(0))
        self.looked.release()
        is_over = self.is_over and not frames
        is_now = is_over or self.frames
        return Output([*frames], 0 if is_now else clock_ms() + self.far_ms, is_over)

    def _run(self) -> None:
        try:
            self.sender.run()
        except LinkLost as error:
            # What a test looks at.
            self.ended.append(error)
        else:
            self.ended.append(None)

    def sleep(self) -> None:
        """Starts the thread, and waits until it sleeps."""
        self.thread.start()
        assert self.looked.acquire(timeout=WAIT_S)
        while not self.sender.is_asleep:
            assert self.thread.is_alive()

    def put(self, frame: bytes) -> None:
        """A frame is to go out."""
        self.frames.append(frame)
        self.notifier.run_helpers()

    def read(self, size: int) -> bytes:
        """So many bytes of the link."""
        found = b""
        while len(found) < size:
            piece = self.peer.recv(size - len(found))
            assert piece
            found += piece
        return found

    def end(self) -> Exception | None:
        """Ends the thread, and answers what it died of."""
        self.is_over = True
        self.notifier.notify()
        self.thread.join(WAIT_S)
        (error,) = self.ended
        return error


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A link over loopback."""
    with listen("127.0.0.1", 0) as listener:
        peer = socket.create_connection(listener.getsockname(), timeout=WAIT_S)
        connected, _ = listener.accept()
    with SlaveSocket(connected, 20_000) as wire, peer:
        yield Stage(wire, peer)


def test_an_appender_sends_for_a_sender_that_sleeps(stage: Stage) -> None:
    """Which sleeps on: no thread has to wake up first."""
    stage.sleep()
    for number in range(10):
        stage.put(b"%d" % number)

    assert stage.read(10) == b"0123456789"
    assert set(stage.gatherers[1:]) == {threading.current_thread().name}
    assert stage.end() is None


def test_the_sender_thread_sends_after_a_plain_notification(stage: Stage) -> None:
    """An append without a waiting slave makes no call of the system."""
    stage.sleep()
    stage.frames.append(b"x")
    stage.notifier.notify()

    assert stage.read(1) == b"x"
    assert set(stage.gatherers) == {"sender"}
    assert stage.end() is None


def test_the_sender_thread_sends_when_the_lock_is_held(stage: Stage) -> None:
    """The appender does not wait."""
    stage.sleep()
    stage.is_locked = True
    stage.put(b"x")

    assert stage.read(1) == b"x"
    assert set(stage.gatherers) == {"sender"}
    assert stage.end() is None


def test_the_sender_thread_sends_the_rest_of_a_partial_write(stage: Stage) -> None:
    """It goes first; nothing overtakes it."""
    stage.sleep()
    large = bytes(range(256)) * (64 << 10)
    stage.put(large)
    stage.put(b"behind")

    assert stage.read(len(large) + 6) == large + b"behind"
    assert stage.end() is None


def test_the_sender_thread_wakes_only_for_an_earlier_deadline(stage: Stage) -> None:
    """Sending may create a deadline, which only the sender keeps."""
    stage.sleep()
    stage.put(b"x")
    assert stage.notifier.count == 0
    stage.far_ms = FAR_MS // 2
    stage.put(b"y")

    assert stage.looked.acquire(timeout=WAIT_S)
    assert stage.looked.acquire(timeout=WAIT_S)
    assert stage.looked.acquire(timeout=WAIT_S)
    assert stage.read(2) == b"xy"
    assert stage.gatherers[1:] == [threading.current_thread().name] * 2 + ["sender"]
    assert stage.end() is None


def test_the_sender_thread_reports_a_broken_link(stage: Stage) -> None:
    """A broken link is no error of the appender."""
    stage.sleep()
    stage.error = LinkLost("it broke")
    stage.put(b"x")
    stage.thread.join(WAIT_S)

    assert stage.ended == [stage.error]
    assert stage.gatherers[1:] == [threading.current_thread().name]


def test_frames_that_many_appenders_send_keep_their_order(stage: Stage) -> None:
    """An appender waits for no other sender; no frame waits for a timeout."""
    stage.sleep()
    lock = threading.Lock()
    numbers = iter(range(8 * 500))

    def work() -> None:
        for _ in range(500):
            with lock:
                stage.frames.append(next(numbers).to_bytes(4, "big"))
            stage.notifier.run_helpers()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    raw = stage.read(4 * 8 * 500)
    for thread in threads:
        thread.join(WAIT_S)

    assert raw == b"".join(n.to_bytes(4, "big") for n in range(8 * 500))
    assert stage.end() is None
