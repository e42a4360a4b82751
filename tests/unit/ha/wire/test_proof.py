"""
Proofs of links: who can make which, and what they cover.
"""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.values import replace

from pystore.ha.wire.proof import (
    OPEN,
    LinkGuard,
    LinkSecrets,
    Prover,
    proof_of,
    slave_secret,
)

SECRET = bytes(range(32))
BITS = bytes(range(16))
GIVEN = {
    "secret": slave_secret(SECRET, 2, 5, BITS),
    "prover": Prover.SLAVE,
    "session_id": 77,
    "challenge": b"c" * 16,
    "handshake": b"the whole frame",
}
_bytes = st.binary(min_size=1, max_size=40)


def test_a_proof_is_the_hmac_that_the_protocol_describes() -> None:
    """Computed here by the words of docs/protocol.md."""
    process = (2).to_bytes(8, "big") + (5).to_bytes(8, "big") + BITS
    own = hmac.new(SECRET, process, hashlib.sha256).digest()
    content = b"pystore link: slave" + (77).to_bytes(8, "big") + b"c" * 16
    content += hashlib.sha256(b"the whole frame").digest()

    assert own == GIVEN["secret"]
    assert hmac.new(own, content, hashlib.sha256).digest() == proof_of(**GIVEN)  # type: ignore[arg-type]


@given(
    st.one_of(
        st.tuples(st.just("secret"), _bytes),
        st.tuples(st.just("prover"), st.just(Prover.MASTER)),
        st.tuples(st.just("session_id"), st.integers(0, 2**63 - 1)),
        st.tuples(st.just("challenge"), st.binary(min_size=16, max_size=16)),
        st.tuples(st.just("handshake"), _bytes),
    )
)
def test_a_proof_is_of_nothing_else(change: tuple[str, object]) -> None:
    """Not of another process, side, session, challenge or handshake."""
    name, value = change
    proof = proof_of(**GIVEN)  # type: ignore[arg-type]
    other = {**GIVEN, name: value}

    assert (other == GIVEN) == (proof == proof_of(**other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "process", [(3, 5, BITS), (2, 6, BITS), (2, 5, bytes(16)), (5, 2, BITS)]
)
def test_each_process_of_each_broker_has_a_secret_of_its_own(
    process: tuple[int, int, bytes],
) -> None:
    """Also the next start of the same broker."""
    assert slave_secret(SECRET, *process) != GIVEN["secret"]


def test_secrets_hold_for_their_epoch_only() -> None:
    """A master has one, a slave the other; without secrets there is neither."""
    guard = LinkGuard(secrets=LinkSecrets(4, of_master=b"m"))
    slave = replace(guard, secrets=LinkSecrets(4, of_slave=b"s"))

    assert (b"m", b"") == (guard.master_secret(4), guard.slave_secret(4))
    assert (b"", b"s") == (slave.master_secret(4), slave.slave_secret(4))
    assert (
        b""
        == guard.master_secret(5)
        == slave.slave_secret(3)
        == slave.slave_secret(None)
    )
    assert b"" == OPEN.master_secret(4) == OPEN.slave_secret(4)


def test_secrets_are_in_no_text() -> None:
    """A guard in a log line tells none."""
    guard = LinkGuard(secrets=LinkSecrets(4, b"master-secret", b"slave-secret"))
    assert "secret'" not in repr(guard)
    assert "-secret" not in repr(guard)
