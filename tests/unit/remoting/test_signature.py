"""
Signatures, against requests that RocketMQ's own classes signed and verified.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystore.errors import InvalidError
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader
from pystore.remoting.signature import (
    ACCESS_KEY,
    SIGNATURE,
    Credentials,
    is_signed_by,
    signed,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "remoting" / "signed.jsonl.gz"
USER = Credentials("someone", "a secret")
REQUEST = RemotingCommand(
    10, ext_fields={"b": "2", "a": "1"}, body=b"body", version=455
)


def decoded(frame: str) -> RemotingCommand:
    """
    The command of a frame.
    """
    reader = CommandReader(1 << 26, 1 << 20)
    reader.feed(memoryview(bytes.fromhex(frame)))
    found = reader.take()
    assert isinstance(found, RemotingCommand)
    return found


def golden() -> list[dict[str, Any]]:
    """
    What RocketMQ made of each request.
    """
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_a_signature_is_the_one_of_rocketmq() -> None:
    """
    For names in any script, empty values, bodies, tokens. RocketMQ itself does not
    verify a request that has a field without a value.
    """
    differ = [
        one
        for one in golden()
        if one["isVerified"]
        and signed(
            decoded(one["frame"]),
            Credentials(one["accessKey"], one["secretKey"], one["securityToken"]),
        ).ext_fields
        != decoded(one["signed"]).ext_fields
    ]

    assert [] == differ
    assert sum(one["isVerified"] for one in golden()) > 250


def test_a_request_is_verified_as_rocketmq_verifies_it() -> None:
    """
    Those of older clients without a field that they add later, too.
    """
    asked = [(decoded(one["signed"]), one) for one in golden()]

    assert [] == [
        one
        for request, one in asked
        if is_signed_by(request, one["secretKey"]) != one["isVerified"]
    ]
    assert not any(is_signed_by(request, "another") for request, _ in asked)


def test_any_change_breaks_the_signature() -> None:
    """
    But of what RocketMQ does not sign: code, opaque number, flag.
    """
    request = signed(REQUEST, USER)
    fields = dict(request.ext_fields)
    assert fields[ACCESS_KEY] == "someone"
    changed = [
        replace(request, body=b"bodY"),
        replace(request, ext_fields={**fields, "a": "3"}),
        replace(request, ext_fields={**fields, "c": "3"}),
        replace(request, ext_fields={**fields, SIGNATURE: ""}),
        replace(request, ext_fields={**fields, SIGNATURE: "é"}),
        replace(
            request, ext_fields={k: v for k, v in fields.items() if k != SIGNATURE}
        ),
    ]

    assert is_signed_by(request, "a secret")
    assert not any(is_signed_by(one, "a secret") for one in changed)
    assert is_signed_by(replace(request, code=11, opaque=7, flag=2), "a secret")


def test_a_request_that_is_signed_again_has_one_signature() -> None:
    """
    Of the last user.
    """
    again = signed(signed(REQUEST, Credentials("other", "key")), USER)

    assert again == signed(REQUEST, USER)


@pytest.mark.parametrize(("access", "secret"), [("", "a"), ("a", "")])
def test_keys_are_not_empty(access: str, secret: str) -> None:
    """
    Anyone would know them.
    """
    with pytest.raises(InvalidError, match="not empty"):
        Credentials(access, secret)


def test_a_secret_is_shown_in_no_text() -> None:
    """
    Credentials may get into a log line.
    """
    user = Credentials("someone", "a secret", "a token")

    assert "someone" in repr(user)
    assert "secret" not in f"{user!r} {user}".replace("secret_key", "")
    assert "token" not in repr(user)
