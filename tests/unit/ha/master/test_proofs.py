"""
A master takes slaves that prove who they are, and tells strangers nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from lib.ha.master_bench import (
    BITS,
    EPOCH,
    SESSION,
    TERMS,
    Bench,
    LegacyBench,
    answer,
    confirmed,
    reason_of,
    shake,
)
from lib.values import replace

from pystore.ha.insync.facts import SessionOpened
from pystore.ha.master.effects import CloseLink, MasterEffect, NewerEpochSeen
from pystore.ha.master.proofs import UNPROVEN, SlaveProofs
from pystore.ha.wire.codes import CheckResult, SlaveFlag
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.effects import Send
from pystore.ha.wire.frames import Body, Challenge, Frame, LinkProof, QueryEpoch
from pystore.ha.wire.proof import (
    LinkGuard,
    LinkSecrets,
    Prover,
    proof_of,
    slave_secret,
)
from pystore.ha.wire.v3 import encode

MASTER_SECRET = bytes(range(32))
CHALLENGE = b"c" * 16
ASKED = b"s" * 16
REQUIRED = LinkGuard(is_required=True, secrets=LinkSecrets(EPOCH, MASTER_SECRET))


def guarded(guard: LinkGuard = REQUIRED, **changes: Any) -> Bench:
    """Returns a link with proofs."""
    return Bench(proofs=SlaveProofs(lambda: guard, CHALLENGE, "10.0.0.7"), **changes)


def proving(**changes: Any) -> Frame:
    """Returns the handshake of a slave that can prove itself."""
    given = {"flags": SlaveFlag.PROVES, "challenge": ASKED, **changes}
    return Frame(EPOCH, 0, shake(**given))


def sent(effects: list[MasterEffect]) -> Body:
    """Returns the only frame that was sent."""
    (data,) = (one.data for one in effects if isinstance(one, Send))
    frame, _ = take_frame(memoryview(data))
    assert frame is not None
    return frame.body


def proof(
    frame: Frame, epoch_secret: bytes = MASTER_SECRET, **changes: Any
) -> LinkProof:
    """Returns the right proof of a handshake, but for changes."""
    process: dict[str, Any] = {"broker_id": 2, "counter": 5, "bits": BITS}
    process = {name: changes.pop(name, value) for name, value in process.items()}
    given = {
        "prover": Prover.SLAVE,
        "session_id": SESSION,
        "challenge": CHALLENGE,
        "handshake": encode(frame),
        **changes,
    }
    return LinkProof(SESSION, proof_of(slave_secret(epoch_secret, **process), **given))


def test_a_slave_that_proves_itself_gets_its_session() -> None:
    """Challenge and proof of the master first; then the answer as without proofs."""
    bench, frame = guarded(), proving()
    asked = sent(bench.hear_bytes(encode(frame)))
    assert isinstance(asked, Challenge)
    assert (asked.session_id, asked.challenge) == (SESSION, CHALLENGE)
    own = slave_secret(MASTER_SECRET, 2, 5, BITS)
    covered = SESSION, CHALLENGE, encode(frame)
    assert asked.proof == proof_of(own, Prover.MASTER, *covered)

    told = answer(bench.hear(proof(frame)))
    assert told.result is CheckResult.SUCCESS
    opened = bench.hear(QueryEpoch(SESSION), confirmed())
    assert any(isinstance(one, SessionOpened) for one in opened)


@pytest.mark.parametrize(
    "changes",
    [
        {"broker_id": 3},
        {"counter": 6},
        {"bits": bytes(16)},
        {"session_id": SESSION + 1},
        {"challenge": b"d" * 16},
        {"handshake": b"another one"},
        {"prover": Prover.MASTER},
        {"epoch_secret": bytes(32)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_wrong_proof_is_refused_without_a_word(changes: dict[str, Any]) -> None:
    """Of another broker, process, session, challenge, handshake, side or epoch."""
    bench, frame = guarded(), proving()
    bench.hear_bytes(encode(frame))
    effects = bench.hear(proof(frame, **changes))

    assert reason_of(effects) == UNPROVEN
    assert_tells_nothing(effects)


def assert_tells_nothing(effects: list[MasterEffect]) -> None:
    """The one refusal of every stranger, and no effect beside it."""
    assert [type(one) for one in effects] == [Send, CloseLink]
    told = answer(effects)
    assert told.result is CheckResult.REJECTED
    assert told.reason == "the handshake is refused"
    assert not any((told.broker_id, told.end_offset, told.segment_size, told.redirect))


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"cluster": "another"},
        {"broker_name": "another"},
        {"broker_id": 77},
        {"incarnation": -1},
        {"last_epoch": 2**62},
        {"segment_size": 1},
        {"protocol_max": 9, "protocol_min": 9},
    ],
    ids=str,
)
@pytest.mark.parametrize("epoch", [EPOCH, 2**62, -1])
def test_strangers_get_the_same_bytes_whatever_they_claim(
    claims: dict[str, Any], epoch: int
) -> None:
    """No cluster, set, id or epoch is told, and none of theirs is believed."""
    effects = guarded().hear(shake(**claims), epoch=epoch)
    assert_tells_nothing(effects)
    assert effects == guarded().hear(shake())
    assert not any(isinstance(one, NewerEpochSeen) for one in effects)


def test_a_master_without_the_secret_of_its_epoch_refuses() -> None:
    """A controller has not given it yet: the slave tries again."""
    other = replace(REQUIRED, secrets=LinkSecrets(EPOCH + 1, MASTER_SECRET))
    for guard in (other, LinkGuard(is_required=True)):
        assert_tells_nothing(guarded(guard).hear_bytes(encode(proving())))


def test_while_proofs_are_not_required_both_kinds_of_slaves_are_served() -> None:
    """And one that can prove itself does."""
    guard = replace(REQUIRED, is_required=False)
    assert answer(guarded(guard).hear(shake())).result is CheckResult.SUCCESS
    assert isinstance(sent(guarded(guard).hear_bytes(encode(proving()))), Challenge)
    no_secret = guarded(LinkGuard()).hear_bytes(encode(proving()))
    assert answer(no_secret).result is CheckResult.SUCCESS


@pytest.mark.parametrize("make", [Bench, LegacyBench])
def test_a_link_that_proved_nothing_ends_when_proofs_are_required(
    make: type[Bench],
) -> None:
    """At its next heartbeat; the slave connects again, and proves itself."""
    guard = replace(REQUIRED, is_required=False)
    proofs = SlaveProofs(lambda: guard, CHALLENGE, "10.0.0.7")
    bench = make(proofs=proofs)
    if isinstance(bench, LegacyBench):
        bench.following()
    else:
        bench.opened()
    assert bench.connection.effects() == []
    guard = REQUIRED
    assert reason_of(bench.tick(TERMS.heartbeat_ms)) == UNPROVEN


def test_an_address_may_be_excused_from_proofs() -> None:
    """A broker of RocketMQ cannot give any."""
    guard = replace(REQUIRED, may_lack=lambda host: host == "10.0.0.7")
    assert answer(guarded(guard).hear(shake())).result is CheckResult.SUCCESS
    elsewhere = Bench(proofs=SlaveProofs(lambda: guard, CHALLENGE, "10.0.0.8"))
    assert_tells_nothing(elsewhere.hear(shake()))


@pytest.mark.parametrize("frames", [1, 2])
def test_a_proof_that_was_not_asked_for_is_a_violation(frames: int) -> None:
    """Before a challenge, and a second one."""
    bench, frame = guarded(), proving()
    right = proof(frame)
    if frames == 2:
        bench.hear_bytes(encode(frame))
        bench.hear(right)
    assert "not asked for" in reason_of(bench.hear(right))


def test_a_second_handshake_gets_no_second_challenge() -> None:
    """One link, one try."""
    bench, frame = guarded(), proving()
    bench.hear_bytes(encode(frame))
    assert "a second handshake" in reason_of(bench.hear_bytes(encode(frame)))


def test_a_handshake_has_one_deadline_over_all_its_frames() -> None:
    """A slave that asks for epochs again and again is closed."""
    bench = Bench()
    bench.hear(shake())
    for _ in range(3):
        assert bench.tick(3_000) == []
        bench.hear(QueryEpoch(SESSION))
    assert bench.connection.next_deadline() == TERMS.handshake_ms
    assert reason_of(bench.tick(1_000)) == "the handshake took too long"


def test_a_proven_slave_has_longer() -> None:
    """It may have to cut a long log."""
    bench, frame = guarded(), proving()
    bench.hear_bytes(encode(frame))
    bench.hear(proof(frame))
    for _ in range(4):
        assert bench.tick(4_000) == []
        bench.hear(QueryEpoch(SESSION))
    assert reason_of(bench.tick(4_000)) == "the handshake took too long"
