"""
What holds for a link in either protocol: silence, heartbeats, ends, bad bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.ha.master_bench import (
    LOG,
    ROSTER,
    SESSION,
    TERMS,
    Bench,
    LegacyBench,
    ack,
    confirmed,
    reason_of,
    shake,
)
from lib.values import replace

from pystore.errors import LocalViolation
from pystore.ha.insync.facts import SessionAcked, SessionEnded
from pystore.ha.master.effects import CloseLink, MasterProtocol, SendBlock
from pystore.ha.wire.codes import State
from pystore.ha.wire.frames import Frame, QueryEpoch
from pystore.ha.wire.legacy import LegacyAck, LegacyHandshake, encode_legacy
from pystore.ha.wire.v3 import encode


def v3() -> Bench:
    """A v3 link that is open."""
    return Bench().opened()


def legacy() -> Bench:
    """A legacy link that is open, its first heartbeat sent."""
    bench = LegacyBench().following()
    bench.tick()
    return bench


opened = pytest.mark.parametrize("make", [v3, legacy])
fresh = pytest.mark.parametrize("make", [Bench, LegacyBench])

V3_TALK = b"".join(
    encode(Frame(4, 0, body))
    for body in (shake(), QueryEpoch(SESSION), confirmed(), ack(1500), ack(1500))
)
LEGACY_TALK = b"".join(
    encode_legacy(frame)
    for frame in (LegacyHandshake(2), LegacyHandshake(2), LegacyAck(9), LegacyAck(9))
)


@fresh
def test_a_link_begins_with_the_handshake(make: Callable[[], Bench]) -> None:
    """Accepted, and nothing said yet; both are what the service knows."""
    bench = make()
    connection: MasterProtocol = bench.connection

    assert connection.state is State.HANDSHAKE
    assert connection.effects() == []


@fresh
def test_a_silent_handshake_is_closed(make: Callable[[], Bench]) -> None:
    """Five seconds, not a millisecond less."""
    bench = make()

    assert bench.connection.next_deadline() == TERMS.reply_ms
    assert bench.tick(TERMS.reply_ms - 1) == []
    assert reason_of(bench.tick(1)) == "the slave sent nothing for 5000 ms"
    assert bench.connection.next_deadline() is None


@opened
def test_heartbeats_come_where_nothing_else_is_sent(make: Callable[[], Bench]) -> None:
    """One interval after the last frame of any kind."""
    bench = make()
    assert bench.connection.next_deadline() == 5000
    assert bench.tick(4999) == []
    (beat,) = bench.tick(1)
    assert isinstance(beat, SendBlock)
    assert (beat.offset, beat.size) == (1500, 0)
    bench.now_ms += 3000
    bench.log = replace(LOG, confirm_offset=LOG.end_offset)
    assert bench.blocks()

    assert bench.connection.next_deadline() == 13000
    assert bench.tick(4999) == []
    assert len(bench.tick(1)) == 1


@opened
def test_twenty_silent_seconds_end_a_session(make: Callable[[], Bench]) -> None:
    """RMQ-R194: heartbeats that we send are no sign of life of the slave."""
    bench = make()
    for _ in range(3):
        assert len(bench.tick(5000)) == 1
    effects = bench.tick(5000)

    assert effects[0] == SessionEnded(2, SESSION, is_graceful=False)
    assert reason_of(effects) == "the slave sent nothing for 20000 ms"


@opened
def test_half_a_frame_is_no_sign_of_life(make: Callable[[], Bench]) -> None:
    """One byte a second is no frame."""
    bench = make()
    raw = encode(Frame(4, 0, ack(1500)))
    half = raw[:30] if make is v3 else encode_legacy(LegacyAck(1500))[:11]
    bench.now_ms = 19000
    assert bench.hear_bytes(half) == []

    assert bench.connection.next_deadline() == 5000
    assert isinstance(bench.tick(1000)[-1], CloseLink)


@opened
def test_a_lost_socket_ends_the_session_once(make: Callable[[], Bench]) -> None:
    """RMQ-R94: the owner may say so twice."""
    bench = make()
    bench.connection.lost("reset by peer")
    bench.connection.lost("reset by peer")

    assert bench.connection.effects() == [SessionEnded(2, SESSION, is_graceful=False)]
    assert bench.connection.state is State.READY
    assert bench.connection.next_deadline() is None
    assert bench.tick(10**6) == []
    assert bench.blocks() == []


@fresh
def test_a_link_lost_in_the_handshake_leaves_no_session(
    make: Callable[[], Bench],
) -> None:
    """No session had begun."""
    bench = make()
    bench.connection.lost("reset by peer")

    assert bench.connection.effects() == []


@opened
def test_shutdown_is_reported_and_final(make: Callable[[], Bench]) -> None:
    """The machine absorbs."""
    bench = make()
    bench.connection.shutdown(0)
    bench.connection.shutdown(0)

    assert bench.connection.effects() == [
        SessionEnded(2, SESSION, is_graceful=False),
        CloseLink("the master shuts down"),
    ]
    bench.connection.lost("gone")
    assert bench.connection.state is State.SHUTDOWN


@opened
def test_shutdown_after_the_end_changes_no_fact(make: Callable[[], Bench]) -> None:
    """One end, one `SessionEnded`."""
    bench = make()
    bench.connection.lost("gone")
    bench.connection.effects()
    bench.connection.shutdown(0)

    assert bench.connection.effects() == []
    assert bench.connection.state is State.SHUTDOWN


@opened
def test_a_suspended_slave_gets_heartbeats_alone(make: Callable[[], Bench]) -> None:
    """At once, so that it knows; acks count; then it goes on where it stood."""
    bench = make()
    bench.now_ms = 10
    bench.connection.suspend(bench.now_ms)
    assert bench.connection.next_deadline() == 10
    (beat,) = bench.tick()

    assert isinstance(beat, SendBlock)
    assert beat.size == 0
    assert bench.blocks() == []
    assert bench.connection.state is State.SUSPEND

    bench.connection.resume(bench.now_ms)
    assert len(bench.tick()) == 1
    assert bench.blocks()[0].offset == 1500


@opened
def test_a_slave_that_acks_wait_for_cannot_be_suspended(
    make: Callable[[], Bench],
) -> None:
    """RMQ-K.3: it has to leave the set first, committed."""
    bench = make()
    bench.set_view = replace(ROSTER, members=frozenset({1, 2}))

    with pytest.raises(LocalViolation, match="broker 2 is in the SyncStateSet"):
        bench.connection.suspend(0)
    assert bench.connection.state is State.TRANSFER


def test_a_wish_to_suspend_waits_for_the_agreement() -> None:
    """And is given up if the slave turns out to be waited for, or by a resume."""
    for members, is_resumed, state in (
        ({1}, False, State.SUSPEND),
        ({1, 2}, False, State.TRANSFER),
        ({1}, True, State.TRANSFER),
    ):
        bench = Bench(set_view=replace(ROSTER, members=frozenset(members)))
        bench.connection.suspend(0)
        if is_resumed:
            bench.connection.resume(0)
        assert bench.connection.state is State.HANDSHAKE

        assert state == bench.opened().connection.state


@pytest.mark.parametrize(
    ("make", "talk"), [(Bench, V3_TALK), (LegacyBench, LEGACY_TALK)]
)
@given(data=st.data())
def test_pieces_say_what_the_whole_says(
    make: Callable[[], Bench], talk: bytes, data: st.DataObject
) -> None:
    """RMQ-R272, RMQ-R197: bytes come as the network likes."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(talk) - 1), max_size=20)))
    whole = make().hear_bytes(talk)
    bench, kept, found = make(), b"", []
    for begin, end in zip([0, *cuts], [*cuts, len(talk)], strict=True):
        kept += talk[begin:end]
        while taken := bench.connection.receive(memoryview(kept), bench.log, 0):
            kept = kept[taken:]
            found += bench.connection.effects()
    found += bench.connection.effects()

    assert whole == found
    assert kept == b""


@pytest.mark.parametrize(
    ("make", "talk"), [(Bench, V3_TALK), (LegacyBench, LEGACY_TALK)]
)
@given(seed=st.integers(0, 2**32))
def test_garbage_closes_the_link_and_claims_nothing(
    make: Callable[[], Bench], talk: bytes, seed: int
) -> None:
    """Flipped bytes, at any place: no ack above what was sent, no exception."""
    rng = random.Random(seed)
    raw = bytearray(talk)
    for _ in range(rng.randint(1, 8)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    bench = make()
    effects = bench.hear_bytes(bytes(raw) + bytes(64))

    closes = [isinstance(effect, CloseLink) for effect in effects]
    assert not any(closes[:-1])
    for effect in effects:
        if isinstance(effect, SessionAcked):
            assert 0 <= effect.received_offset <= LOG.end_offset


@pytest.mark.parametrize(
    ("make", "raw", "reason"),
    [
        (Bench, b"\0\0\0\x17", "a frame of 23 bytes"),
        (Bench, b"\x80\0\0\0", "a frame of -2147483648 bytes"),
        (Bench, b"\0\x10\0\x01", "a frame of 1048577 bytes"),
        (Bench, b"\0\0\0\x18\0\0\0\x0c", "a frame of the unknown type 12"),
        (Bench, b"GET / HTTP/1.1\r\n", "a frame of 1195725856 bytes"),
        (LegacyBench, b"\0\0\0\x03", "state 3"),
        (LegacyBench, b"\0\0\0\x01\0\x02\0\0" + bytes(8), "flags 2 and 0"),
        (LegacyBench, b"\0\0\0\x01" + bytes(12), "broker id 0"),
    ],
)
def test_bytes_that_are_no_frame_close_the_link_at_once(
    make: Callable[[], Bench], raw: bytes, reason: str
) -> None:
    """Before the rest of what they announce has come."""
    assert reason in reason_of(make().hear_bytes(raw))


def test_a_frame_of_a_later_version_is_skipped() -> None:
    """By its length, and it counts as a sign of life."""
    bench = v3()
    bench.now_ms = 4000
    frame = (30).to_bytes(4, "big") + (16).to_bytes(4, "big") + bytes(22)

    assert bench.hear_bytes(frame) == []
    assert bench.connection.next_deadline() == 5000
    assert bench.tick(19999 - 4000 + 4000)[-1:] != []
    assert bench.connection.state is State.TRANSFER


def test_after_the_end_nothing_is_taken() -> None:
    """Bytes that the socket still holds are dropped."""
    bench = v3()
    bench.connection.lost("gone")
    bench.connection.effects()

    assert bench.connection.receive(memoryview(V3_TALK), bench.log, 0) == 0
    assert bench.connection.effects() == []
