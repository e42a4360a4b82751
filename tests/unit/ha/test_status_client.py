"""
A master's answers, however they come: in pages, in pieces, from an empty log, wrong.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

import pytest
from lib.ha.legacy_master_server import listening
from lib.ha.scripted_v3_master import DATA, EPOCHS, SESSION, SHAKE
from lib.values import replace

from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.transport import StreamLost
from pystore.ha.status_client import (
    LEARNER_ID,
    MasterStatus,
    StatusQuery,
    ask_legacy,
    ask_v3,
)
from pystore.ha.wire.codes import CheckResult, EpochsFlag, SlaveFlag
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Body, Frame, HandshakeSlave, QueryEpoch
from pystore.ha.wire.legacy import (
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyFrame,
    LegacyHandshake,
    decode_from_slave,
    encode_legacy,
)
from pystore.ha.wire.v3 import encode

EPOCH = 3
TIMEOUT_MS = 10_000


class Script:
    """
    A v3 master that says what a test wants: an answer for each frame.

    Attributes:
        heard: every frame that came, of all links.
    """

    def __init__(self, *answers: Iterable[Body]) -> None:
        self.heard: list[Body] = []
        self._answers = [list(bodies) for bodies in answers]

    def __call__(self, link: socket.socket) -> None:
        """
        Serves a link; each has its own row of answers.
        """
        data = bytearray()
        for body in self._answers.pop(0):
            while (taken := take_frame(memoryview(bytes(data))))[0] is None:
                data += link.recv(1 << 16) or pytest.fail("it hung up")
            frame, size = taken
            assert frame is not None
            self.heard.append(frame.body)
            del data[:size]
            for piece in encode(Frame(EPOCH, 0, body)):
                # Byte by byte: a reader of frames waits for all of it.
                link.sendall(bytes([piece]))
        while link.recv(1 << 16):
            pass


def asked(script: Script) -> MasterStatus:
    """
    What is found out of a script.
    """
    with listening(script) as port:
        return ask_v3(StatusQuery(f"127.0.0.1:{port}", timeout_ms=TIMEOUT_MS))


def test_epochs_come_in_pages() -> None:
    """
    They are asked for until the last one is there; bounds are those of that page.
    """
    first = replace(EPOCHS, entries=EPOCHS.entries[:1], flags=EpochsFlag.MORE)
    last = replace(EPOCHS, entries=EPOCHS.entries[1:])
    script = Script([SHAKE, first, last])
    found = asked(script)

    shake, *queries = script.heard
    assert isinstance(shake, HandshakeSlave)
    assert SlaveFlag.LEARNER | SlaveFlag.START_SUSPENDED == shake.flags
    assert (LEARNER_ID, -1, 0) == (shake.broker_id, shake.last_epoch, shake.end_offset)
    assert [QueryEpoch(SESSION, 0), QueryEpoch(SESSION, 2)] == queries
    assert [(1, 0, 16), (3, 16, 24)] == found.rows()
    assert (EPOCH, 24, CheckResult.SUCCESS.name) == (
        found.epoch,
        found.end_offset,
        found.result,
    )


def test_the_segment_size_is_learned_from_the_refusal() -> None:
    """
    A second link goes on with it; if that is refused as well, it is over.
    """
    refusal = replace(SHAKE, result=CheckResult.STORE_LAYOUT, session_id=0, reason="no")
    script = Script([refusal], [SHAKE, EPOCHS])
    assert CheckResult.SUCCESS.name == asked(script).result
    sizes = [
        one.segment_size for one in script.heard if isinstance(one, HandshakeSlave)
    ]
    assert SHAKE.segment_size == sizes[1] != sizes[0]

    found = asked(Script([refusal], [refusal]))
    assert ("STORE_LAYOUT", "no", []) == (found.result, found.reason, found.rows())


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        ([EPOCHS], "answered a handshake with ReturnEpoch"),
        ([SHAKE, DATA], "sent TransferData instead of epochs"),
        ([SHAKE, replace(EPOCHS, entries=((1, 0, 16), (3, 8, 24)))], "does not follow"),
    ],
)
def test_an_answer_that_is_none_is_a_violation(bodies: list[Body], reason: str) -> None:
    """
    What is wrong with it is said.
    """
    with pytest.raises(RemoteViolation, match=reason):
        asked(Script(bodies))


def test_a_name_that_fits_into_no_frame_is_refused_before_anybody_is_asked() -> None:
    """
    As the caller's mistake.
    """
    with pytest.raises(InvalidError):
        ask_v3(StatusQuery("127.0.0.1:1", cluster="c" * 70_000))


def legacy(*frames: LegacyFrame) -> Callable[[socket.socket], None]:
    """
    A legacy master that answers a handshake and a report.
    """

    def answer(link: socket.socket) -> None:
        data = bytearray()
        expected = [LegacyHandshake(LEARNER_ID, is_learner=True), LegacyAck(0)]
        for frame, awaited in zip(frames, expected, strict=False):
            while (taken := decode_from_slave(memoryview(bytes(data)))) is None:
                data += link.recv(1 << 16) or pytest.fail("it hung up")
            assert awaited == taken[0]
            del data[: taken[1]]
            link.sendall(encode_legacy(frame))
        while link.recv(1 << 16):
            pass

    return answer


def asked_legacy(*frames: LegacyFrame, timeout_ms: int = TIMEOUT_MS) -> MasterStatus:
    """
    What is found out of these frames.
    """
    with listening(legacy(*frames)) as port:
        return ask_legacy(StatusQuery(f"127.0.0.1:{port}", timeout_ms=timeout_ms))


def test_a_legacy_master_says_its_bounds_with_the_first_block() -> None:
    """
    Where its log begins, after its first segments have gone; 32 KiB come along.
    """
    block = bytes(32 << 10)
    found = asked_legacy(
        LegacyEpochs(1 << 20, 7, ((6, 0), (7, 1 << 19))),
        LegacyData(1 << 16, 6, 0, 1 << 18, block),
    )
    assert (7, 1 << 16, 1 << 20, 1 << 18) == (
        found.epoch,
        found.min_offset,
        found.end_offset,
        found.confirm_offset,
    )
    assert [(6, 0, 1 << 19), (7, 1 << 19, 1 << 20)] == found.rows()


def test_a_legacy_master_may_have_no_byte() -> None:
    """
    Then it names no offset, and its log begins where it ends.
    """
    found = asked_legacy(LegacyEpochs(0, -1, ()), LegacyData(-1, -1, 0, 0))
    assert (-1, 0, 0, []) == (
        found.epoch,
        found.min_offset,
        found.end_offset,
        found.rows(),
    )


def test_a_legacy_master_that_never_sends_is_left() -> None:
    """
    Half an answer is none: a master without its confirm offset is no status.
    """
    with pytest.raises(StreamLost, match="did not answer in time"):
        asked_legacy(LegacyEpochs(0, -1, ()), timeout_ms=50)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([LegacyData(0, 1, 0, 0)], "answered a handshake with LegacyData"),
        ([LegacyEpochs(0, -1, ())] * 2, "sent LegacyEpochs instead of data"),
        ([LegacyEpochs(9, 1, ((2, 0), (1, 5))), LegacyData(0, 1, 0, 0)], "epochs"),
    ],
)
def test_a_legacy_answer_that_is_none_is_a_violation(
    frames: list[LegacyFrame], reason: str
) -> None:
    """
    What is wrong with it is said.
    """
    with pytest.raises(RemoteViolation, match=reason):
        asked_legacy(*frames)
