"""
Whether the slave of one link has proven who it is. Pure.

A stranger learns from a refusal that it is refused, and nothing else: which brokers,
epochs and sets there are is told to members only.

Source: docs/protocol.md, *Proofs*; B16.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from pystore.epochs.table import NO_EPOCH
from pystore.errors import RemoteViolation
from pystore.ha.wire.codes import CheckResult, MasterFlag, SlaveFlag
from pystore.ha.wire.frames import (
    Challenge,
    Frame,
    HandshakeMaster,
    HandshakeSlave,
    LinkProof,
)
from pystore.ha.wire.proof import (
    CHALLENGE_BYTES,
    OPEN,
    LinkGuard,
    Prover,
    proof_of,
    slave_secret,
)

__all__ = ["UNPROVEN", "SlaveProofs", "stranger_refusal"]

UNPROVEN = "the peer did not prove that it is a broker of this set"

_NO_FLAG = MasterFlag(0)


def stranger_refusal(sent_ms: int) -> Frame:
    """
    Returns the answer to a stranger: the same to each.
    """
    body = HandshakeMaster(
        result=CheckResult.REJECTED,
        protocol=0,
        broker_id=0,
        session_id=0,
        epoch_start=0,
        min_offset=0,
        end_offset=0,
        confirm_offset=0,
        segment_size=0,
        frame_bytes_max=0,
        heartbeat_ms=0,
        housekeeping_ms=0,
        flags=_NO_FLAG,
        redirect="",
        reason="the handshake is refused",
    )
    return Frame(NO_EPOCH, sent_ms, body)


class SlaveProofs:
    """
    The proofs of one link. One thread.

    Args:
        guard: returns what this master knows about proofs at that moment.
        challenge: random bytes of the link.
        host: the address of the slave.

    Attributes:
        is_proven: whether the slave has proven who it is.
    """

    def __init__(
        self,
        guard: Callable[[], LinkGuard] = lambda: OPEN,
        challenge: bytes = bytes(CHALLENGE_BYTES),
        host: str = "",
    ) -> None:
        self.is_proven = False
        self._guard = guard
        self._challenge = challenge
        self._host = host
        self._pending: tuple[HandshakeSlave, int, bytes, bytes] | None = None

    @property
    def problem(self) -> str:
        """
        Why this link may not go on, as one line; empty: it may.
        """
        if self.is_proven:
            return ""
        guard = self._guard()
        is_refused = guard.is_required and not guard.may_lack(self._host)
        return UNPROVEN if is_refused else ""

    @property
    def is_unproven(self) -> bool:
        """
        Whether the slave proved nothing, although this master could verify it.
        """
        return not self.is_proven and self._guard().secrets is not None

    def challenge(
        self, shake: HandshakeSlave, epoch: int, raw: bytes, own: tuple[int, int]
    ) -> Challenge | None:
        """
        Returns the master's proof and challenge; ``None``: one of the two sides cannot
        prove itself.

        Args:
            shake: the slave's handshake.
            epoch: of its frame.
            raw: the whole frame.
            own: epoch of this mastership, and id of the session.

        Raises:
            RemoteViolation: a second handshake.
        """
        if self._pending is not None:
            raise RemoteViolation("a second handshake on this link")
        master_epoch, session_id = own
        secret = self._guard().master_secret(master_epoch)
        if not secret or not shake.flags & SlaveFlag.PROVES:
            return None
        secret = slave_secret(
            secret, shake.broker_id, shake.incarnation, shake.incarnation_bits
        )
        self._pending = shake, epoch, raw, secret
        proof = proof_of(secret, Prover.MASTER, session_id, self._challenge, raw)
        return Challenge(session_id, self._challenge, proof)

    def take(
        self, body: LinkProof, session_id: int
    ) -> tuple[HandshakeSlave, int] | None:
        """
        Returns the handshake that the slave has proven, and the epoch of its frame;
        ``None``: the proof is another one.

        Raises:
            RemoteViolation: nothing was asked.
        """
        if self._pending is None or self.is_proven:
            raise RemoteViolation("a proof that was not asked for")
        shake, epoch, raw, secret = self._pending
        is_ours = body.session_id == session_id
        expected = proof_of(secret, Prover.SLAVE, session_id, self._challenge, raw)
        self.is_proven = is_ours and hmac.compare_digest(body.proof, expected)
        return (shake, epoch) if self.is_proven else None
