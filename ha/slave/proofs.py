"""
Whether the master of one link has proven that it is the master. Pure.

Source: docs/protocol.md, *Proofs*; B16.
"""

from __future__ import annotations

import hmac

from pystore.errors import RemoteViolation
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.wire.frames import Challenge, HandshakeMaster, LinkProof
from pystore.ha.wire.proof import Prover, proof_of

__all__ = ["MasterProofs"]


class MasterProofs:
    """
    The proofs of one link. One thread.

    Args:
        config: of the slave.
        challenge: random bytes of the link.
    """

    def __init__(self, config: SlaveConfig, challenge: bytes) -> None:
        self._config = config
        self._challenge = challenge
        self._secret = config.guard().slave_secret(config.epoch)
        self._handshake = b""
        self._session_id: int | None = None

    @property
    def challenge(self) -> bytes:
        """
        The random bytes of the handshake; empty: the slave can prove nothing.
        """
        return self._challenge if self._secret else b""

    @property
    def lacks_secret(self) -> bool:
        """
        Whether proofs are required, and this slave has no secret for them yet.
        """
        return self._config.guard().is_required and not self._secret

    @property
    def problem(self) -> str:
        """
        Why this link may not go on, as one line; empty: it may.
        """
        if self._session_id is not None or not self._config.guard().is_required:
            return ""
        return "the peer did not prove that it is the master"

    def began(self, handshake: bytes) -> None:
        """
        The handshake is sent.

        Args:
            handshake: the whole frame.
        """
        self._handshake = handshake

    def answer(self, body: Challenge) -> LinkProof | None:
        """
        Returns the slave's proof; ``None``: that of the master is not right, so it gets
        none.

        Raises:
            RemoteViolation: the slave proves nothing, or was asked before.
        """
        if not self._secret or self._session_id is not None:
            raise RemoteViolation("a challenge that was not asked for")
        asked = body.session_id, body.challenge, self._handshake
        expected = proof_of(self._secret, Prover.MASTER, *asked)
        if not hmac.compare_digest(body.proof, expected):
            return None
        self._session_id = body.session_id
        proof = proof_of(self._secret, Prover.SLAVE, *asked)
        return LinkProof(body.session_id, proof)

    def check(self, body: HandshakeMaster) -> None:
        """
        Raises:
            RemoteViolation: the session is not the one that was proven.
        """
        own = self._session_id
        if own is not None and body.session_id not in (0, own):
            raise RemoteViolation(
                f"session {body.session_id:x} begins, and {own:x} was proven"
            )
