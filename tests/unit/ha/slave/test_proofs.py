"""
A slave follows a master that proves who it is, and no other where that is required.
"""

from __future__ import annotations

import pytest
from lib.ha.scripted_v3_master import (
    DATA,
    EPOCHS,
    SESSION,
    SHAKE,
    TERMS,
    Master,
    flowing,
)
from lib.values import replace

from pystore.ha.slave.effects import Retry
from pystore.ha.wire.codes import CheckResult, SlaveFlag, State
from pystore.ha.wire.frames import (
    Challenge,
    HandshakeSlave,
    LinkProof,
    QueryEpoch,
)
from pystore.ha.wire.proof import (
    LinkGuard,
    LinkSecrets,
    Prover,
    proof_of,
)

SECRET = bytes(range(32))
RANDOM = b"c" * 16
REQUIRED = LinkGuard(is_required=True, secrets=LinkSecrets(3, of_slave=SECRET))
PROVING = replace(TERMS, guard=lambda: REQUIRED)


def challenge(master: Master, secret: bytes = SECRET) -> Challenge:
    """Returns a master's challenge to the handshake that it has received."""
    covered = SESSION, RANDOM, bytes(master.owner.sent[0])
    return Challenge(SESSION, RANDOM, proof_of(secret, Prover.MASTER, *covered))


def test_the_slave_proves_itself_to_a_master_that_did() -> None:
    """Its random bytes come with the handshake, its proof with the answer."""
    master = Master(config=PROVING)
    shake = master.last()
    assert isinstance(shake, HandshakeSlave)
    assert shake.flags & SlaveFlag.PROVES
    assert len(shake.challenge) == 16

    master.say(challenge(master))
    proof = master.last()
    assert isinstance(proof, LinkProof)
    covered = SESSION, RANDOM, bytes(master.owner.sent[0])
    assert proof.proof == proof_of(SECRET, Prover.SLAVE, *covered)
    master.say(SHAKE)
    assert isinstance(master.last(), QueryEpoch)


def test_a_master_with_another_secret_gets_no_proof() -> None:
    """It is not the master, or of another epoch: the controller knows."""
    master = Master(config=PROVING)
    master.say(challenge(master, bytes(32)))

    assert master.closed.retry is Retry.ASK_CONTROLLER
    assert master.closed.reason == (
        "the peer is not the master of epoch 3: its proof was made with another secret"
    )
    assert not any(isinstance(one.body, LinkProof) for one in master.heard())


@pytest.mark.parametrize("result", list(CheckResult))
def test_an_answer_without_a_proof_counts_for_nothing_where_one_is_required(
    result: CheckResult,
) -> None:
    """Neither a session nor a refusal, whatever it claims."""
    master = Master(config=PROVING)
    master.say(replace(SHAKE, result=result, redirect="h:1", reason="go away"))

    assert master.closed.reason == "the peer did not prove that it is the master"
    assert (Retry.ASK_CONTROLLER, "") == (master.closed.retry, master.closed.redirect)


def test_without_a_secret_nothing_is_sent() -> None:
    """No controller has given one yet for this epoch."""
    other = replace(REQUIRED, secrets=LinkSecrets(2, of_slave=SECRET))
    master = Master(config=replace(TERMS, guard=lambda: other))

    assert master.heard() == []
    assert master.closed.retry is Retry.ASK_CONTROLLER
    assert "no controller has given a secret for epoch 3 yet" in master.closed.reason


def test_where_proofs_are_not_required_a_master_may_lack_them() -> None:
    """As one that has no secret yet; a right one is checked all the same."""
    guard = replace(REQUIRED, is_required=False)
    config = replace(TERMS, guard=lambda: guard)
    master = Master(config=config)
    master.say(SHAKE)
    assert isinstance(master.last(), QueryEpoch)
    master = Master(config=config)
    master.say(challenge(master, bytes(32)))
    assert "another secret" in master.closed.reason


def test_the_session_is_the_one_that_was_proven() -> None:
    """An answer with another id is of no use to a stranger."""
    master = Master(config=PROVING)
    master.say(challenge(master), replace(SHAKE, session_id=SESSION + 1))
    assert "and 5e55 was proven" in master.closed.reason


def test_a_second_challenge_is_a_violation() -> None:
    """And one to a slave that can prove nothing."""
    master = Master(config=PROVING)
    master.say(challenge(master), challenge(master))
    assert "not asked for" in master.closed.reason
    master = Master()
    master.say(challenge(master))
    assert "not asked for" in master.closed.reason


def test_a_link_without_proofs_ends_when_they_are_required() -> None:
    """At the next deadline; then the slave connects again."""
    guard = replace(REQUIRED, is_required=False)
    master = flowing(config=replace(TERMS, guard=lambda: guard))
    assert master.state is State.TRANSFER
    guard = REQUIRED
    master.owner.pass_time(5_000)
    assert master.closed.reason == "the peer did not prove that it is the master"


def test_a_proven_link_goes_on() -> None:
    """Also when the controllers do not answer, or the epoch's secret is forgotten."""
    guard = REQUIRED
    master = Master(config=replace(TERMS, guard=lambda: guard))
    master.say(challenge(master), SHAKE, EPOCHS, DATA)
    assert master.state is State.TRANSFER
    guard = LinkGuard(is_required=True)
    master.owner.pass_time(5_000)
    assert master.owner.closed is None
