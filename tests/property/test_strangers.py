"""
Strangers at a master that requires proofs: whatever they send, nothing changes, and
they learn that they are refused.

A stranger knows the protocol, the names, the ids and the incarnations of a set, and has
captured the links of others; it has no secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from lib.ha.master_bench import BITS, EPOCH, SESSION, Bench, shake
from lib.ha.wire_frames import frames
from lib.values import replace

from pystore.ha.master.effects import CloseLink, MasterEffect
from pystore.ha.master.proofs import SlaveProofs, stranger_refusal
from pystore.ha.wire.codes import SlaveFlag
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.effects import Send
from pystore.ha.wire.frames import Challenge, Frame, LinkProof, TransferAck
from pystore.ha.wire.proof import (
    LinkGuard,
    LinkSecrets,
    Prover,
    proof_of,
    slave_secret,
)
from pystore.ha.wire.v3 import encode

SECRET = bytes(range(32))
OLD_SECRET = bytes(range(1, 33))
GUARD = LinkGuard(is_required=True, secrets=LinkSecrets(EPOCH, SECRET))
HERE, ELSEWHERE = b"h" * 16, b"e" * 16


@dataclass(frozen=True)
class Captured:
    """What a stranger saw of a member's link: its handshake, and its proof there."""

    handshake: Frame
    proof: LinkProof


def _captured(secret: bytes, session_id: int, challenge: bytes) -> Captured:
    body = shake(flags=SlaveFlag.PROVES, challenge=b"s" * 16)
    handshake = Frame(EPOCH, 0, body)
    own = slave_secret(secret, body.broker_id, body.incarnation, BITS)
    raw = encode(handshake)
    made = proof_of(own, Prover.SLAVE, session_id, challenge, raw)
    return Captured(handshake, LinkProof(SESSION, made))


CAPTURED = (
    _captured(SECRET, SESSION + 1, HERE),
    _captured(SECRET, SESSION, ELSEWHERE),
    _captured(OLD_SECRET, SESSION, HERE),
)
_claims = st.fixed_dictionaries(
    {},
    optional={
        "broker_id": st.sampled_from([1, 2, 3, 77]),
        "incarnation": st.sampled_from([0, 5, 6, 2**62]),
        "last_epoch": st.sampled_from([-1, 2, EPOCH, 2**62]),
        "cluster": st.sampled_from(["c", "d"]),
        "broker_name": st.sampled_from(["b", "d"]),
        "end_offset": st.sampled_from([0, 1500, 2**62]),
    },
)
_epochs = st.sampled_from([-1, 0, EPOCH - 1, EPOCH, EPOCH + 1, 2**62])
_handshakes = st.builds(
    lambda epoch, proves, claims: Frame(
        epoch,
        0,
        shake(
            **claims,
            **({"flags": SlaveFlag.PROVES, "challenge": b"x" * 16} if proves else {}),
        ),
    ),
    _epochs,
    st.booleans(),
    _claims,
)
_guesses = st.one_of(
    st.binary(min_size=32, max_size=32).map(lambda made: LinkProof(SESSION, made)),
    st.sampled_from([one.proof for one in CAPTURED]),
)
_acks = st.builds(
    lambda ack, epoch: Frame(epoch, 0, ack._replace(session_id=SESSION)),
    st.builds(
        TransferAck,
        *(st.sampled_from([0, 1, SESSION, 3000, 2**62]),) * 6,
        *(st.just(0),) * 2,
    ),
    _epochs,
)
_inputs = st.one_of(
    _handshakes.map(encode),
    st.sampled_from([encode(one.handshake) for one in CAPTURED]),
    st.builds(lambda body, epoch: encode(Frame(epoch, 0, body)), _guesses, _epochs),
    _acks.map(encode),
    frames.map(encode),
    st.binary(max_size=60),
)


def _heard(effects: list[MasterEffect]) -> list[Frame]:
    found = []
    for one in effects:
        assert isinstance(one, Send | CloseLink), one
        if isinstance(one, Send):
            frame, _ = take_frame(memoryview(one.data))
            assert frame is not None
            found.append(frame)
    return found


@given(st.lists(_inputs, max_size=6))
def test_a_stranger_changes_nothing_and_learns_that_it_is_refused(
    inputs: list[bytes],
) -> None:
    """At most one challenge, then the refusal of all strangers, or silence."""
    bench = Bench(proofs=SlaveProofs(lambda: GUARD, HERE, "10.0.0.7"))
    heard: list[Frame] = []
    for raw in inputs:
        heard += _heard(bench.hear_bytes(raw))
        assert bench.blocks() == []
    refusal = stranger_refusal(bench.now_ms + bench.connection.config.wall_ms)
    challenges = [one for one in heard if isinstance(one.body, Challenge)]
    assert len(challenges) <= 1
    assert [one for one in heard if one not in challenges] in ([], [refusal])
    for one in challenges:
        assert isinstance(one.body, Challenge)
        assert (one.body.session_id, one.body.challenge) == (SESSION, HERE)
    assert not bench.connection._proofs.is_proven


def test_the_same_inputs_open_a_link_of_a_member() -> None:
    """So the refusals above are due to the proofs."""
    member = _captured(SECRET, SESSION, HERE)
    bench = Bench(proofs=SlaveProofs(lambda: GUARD, HERE, "10.0.0.7"))
    bench.hear_bytes(encode(member.handshake))
    bench.hear_bytes(encode(replace(member.handshake, body=member.proof)))
    assert bench.connection._proofs.is_proven
