"""
What both ends of a v3 link prove before the first byte of the log. Pure.

The controllers derive one secret for each mastership of a set. The master has it; a
slave has only what is derived from it for its own broker id and this start of its
process. So a master can verify each slave, a slave proves no other broker, and the next
mastership has other secrets. A proof covers the slave's whole handshake, in which both
its claims and its random bytes are, the master's random bytes, and the session.

Source: RFC 2104; docs/protocol.md, *Proofs*; B16.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

__all__ = [
    "CHALLENGE_BYTES",
    "OPEN",
    "PROOF_BYTES",
    "SECRET_BYTES",
    "LinkGuard",
    "LinkSecrets",
    "Prover",
    "proof_of",
    "slave_secret",
]

SECRET_BYTES = 32
"""Of the secret of a mastership, and of those derived from it."""

CHALLENGE_BYTES = 16
"""Random bytes of each side."""

PROOF_BYTES = 32

_PROCESS = struct.Struct(">qq16s")
_SESSION = struct.Struct(">q")


class Prover(Enum):
    """
    The side that proves itself; so no proof can be sent back.
    """

    MASTER = b"pystore link: master"
    SLAVE = b"pystore link: slave"


@dataclass(frozen=True, slots=True)
class LinkSecrets:
    """
    What a controller gives one process for one mastership of its set.

    Attributes:
        epoch: of the mastership.
        of_master: its secret, if this process is the master; else empty.
        of_slave: the secret of this process as its slave, if it is none; else empty.
        of_set: the secret that all brokers of the set share; empty: the controller is
            of a version that gives none.
    """

    epoch: int
    of_master: bytes = field(default=b"", repr=False)
    of_slave: bytes = field(default=b"", repr=False)
    of_set: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class LinkGuard:
    """
    What a process knows about proofs of links at one moment.

    Attributes:
        is_required: links without proofs are refused.
        secrets: of the newest mastership that it knows; ``None``: it has none.
        may_lack: returns whether a peer at this address may go without proofs, although
            they are required: RocketMQ's brokers cannot give them.
    """

    is_required: bool = False
    secrets: LinkSecrets | None = None
    may_lack: Callable[[str], bool] = field(default=lambda _: False, repr=False)

    def master_secret(self, epoch: int) -> bytes:
        """
        Returns the secret of this process as the master of an epoch; empty: it has
        none.
        """
        own = self.secrets
        return own.of_master if own is not None and own.epoch == epoch else b""

    def slave_secret(self, epoch: int | None) -> bytes:
        """
        Returns the secret of this process as a slave in an epoch; empty: it has none.
        """
        own = self.secrets
        return own.of_slave if own is not None and own.epoch == epoch else b""

    def set_secret(self, epoch: int) -> bytes:
        """
        Returns the secret of the set in an epoch; empty: this process has none.
        """
        own = self.secrets
        return own.of_set if own is not None and own.epoch == epoch else b""


OPEN = LinkGuard()
"""Nothing is proven and nothing required."""


def slave_secret(
    master_secret: bytes, broker_id: int, counter: int, bits: bytes
) -> bytes:
    """
    Returns the secret of one process of a broker as slave in a mastership.

    Args:
        master_secret: of the mastership.
        broker_id: of the slave.
        counter: of the incarnation of its process.
        bits: the 16 random bytes of the incarnation.
    """
    process = _PROCESS.pack(broker_id, counter, bits)
    return hmac.digest(master_secret, process, "sha256")


def proof_of(
    secret: bytes, prover: Prover, session_id: int, challenge: bytes, handshake: bytes
) -> bytes:
    """
    Returns the proof of one side; compare another one with `hmac.compare_digest`.

    Args:
        secret: of the slave.
        prover: the side.
        session_id: of the session that begins.
        challenge: the master's random bytes.
        handshake: the whole frame HANDSHAKE_SLAVE.
    """
    covered = hashlib.sha256(handshake).digest()
    content = prover.value + _SESSION.pack(session_id) + challenge + covered
    return hmac.digest(secret, content, "sha256")
