"""
Frames with proofs to bytes and back. Pure.

Source: docs/protocol.md, *Proofs*.
"""

from __future__ import annotations

import struct

from pystore.errors import InvalidError
from pystore.ha.wire.frames import Challenge, LinkProof
from pystore.ha.wire.proof import CHALLENGE_BYTES, PROOF_BYTES

__all__ = [
    "decode_challenge",
    "decode_proof",
    "encode_challenge",
    "encode_proof",
]

_CHALLENGE = struct.Struct(f">q{CHALLENGE_BYTES}s{PROOF_BYTES}s")
_PROOF = struct.Struct(f">q{PROOF_BYTES}s")


def encode_challenge(body: Challenge) -> bytes:
    """
    Returns the body of CHALLENGE.

    Raises:
        InvalidError: random bytes or proof have another length.
    """
    if (len(body.challenge), len(body.proof)) != (CHALLENGE_BYTES, PROOF_BYTES):
        raise InvalidError(
            f"a challenge has {CHALLENGE_BYTES} bytes and a proof {PROOF_BYTES}"
        )
    return _CHALLENGE.pack(body.session_id, body.challenge, body.proof)


def decode_challenge(payload: memoryview) -> Challenge:
    """
    Returns the body of CHALLENGE.

    Raises:
        struct.error: it is too short.
    """
    return Challenge(*_CHALLENGE.unpack_from(payload))


def encode_proof(body: LinkProof) -> bytes:
    """
    Returns the body of PROOF.

    Raises:
        InvalidError: the proof has another length.
    """
    if len(body.proof) != PROOF_BYTES:
        raise InvalidError(f"a proof has {PROOF_BYTES} bytes")
    return _PROOF.pack(body.session_id, body.proof)


def decode_proof(payload: memoryview) -> LinkProof:
    """
    Returns the body of PROOF.

    Raises:
        struct.error: it is too short.
    """
    return LinkProof(*_PROOF.unpack_from(payload))
