"""
Signatures of requests, as RocketMQ makes them. Pure.

A user has an access key, which names it, and a secret key. The signature is the
HMAC-SHA1 of the request's fields and body with the secret key, in Base64, and stands in
a field of its own. **It does not cover the code of the request, nor its opaque number
or flag**: RocketMQ signs without them.

Source: RocketMQ's own classes decide the bytes (`tests/golden/README.md`, signed).
"""

from __future__ import annotations

import hmac
from binascii import b2a_base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pystore.errors import InvalidError
from pystore.remoting.command import RemotingCommand

__all__ = [
    "ACCESS_KEY",
    "SECURITY_TOKEN",
    "SIGNATURE",
    "UNIQUE_KEY_QUERY",
    "Credentials",
    "is_signature",
    "is_signed_by",
    "signed",
    "signing_order",
]

ACCESS_KEY = "AccessKey"
"""The field with the name of the user."""

SECURITY_TOKEN = "SecurityToken"
"""A field that some clients add; signed as any other."""

SIGNATURE = "Signature"
"""The field with the signature, which does not cover itself."""

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""A field that some clients add after they have signed."""

_HASH = "sha1"
_VERSION_UNSIGNED_QUERY = 399
"""The ordinal of 4.9.3: clients up to it add that field after they have signed."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """
    A user's keys.

    Attributes:
        access_key: its name.
        secret_key: shown in no text.
        security_token: empty: it has none.

    Raises:
        InvalidError: an empty key.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise InvalidError("an access key and a secret key are not empty")


def signed(
    request: RemotingCommand, user: Credentials, more: Mapping[str, str] | None = None
) -> RemotingCommand:
    """
    Returns the request with the fields of the user and the signature.

    Args:
        request: to be sent.
        user: that sends it.
        more: fields that are added and signed, too.
    """
    fields = {**request.ext_fields, **(more or {}), ACCESS_KEY: user.access_key}
    if user.security_token:
        fields[SECURITY_TOKEN] = user.security_token
    fields.pop(SIGNATURE, None)
    content = _content(fields, request.body)
    fields[SIGNATURE] = _signature(content, user.secret_key).decode()
    return replace(request, ext_fields=fields)


def is_signed_by(request: RemotingCommand, secret_key: str) -> bool:
    """
    Whether the signature of a request was made with this key. The time that it takes
    tells nothing of the key.
    """
    fields = dict(request.ext_fields)
    found = fields.pop(SIGNATURE, "")
    if request.version <= _VERSION_UNSIGNED_QUERY:
        fields.pop(UNIQUE_KEY_QUERY, None)
    content = _content(fields, request.body)
    return is_signature(found.encode("utf-8", "replace"), content, secret_key)


def is_signature(found: bytes, content: bytes, secret_key: str) -> bool:
    """
    Whether a signature of this content was made with this key.

    Args:
        found: the value of the field.
        content: the values of the other fields in their order, and the body.
        secret_key: of the user.
    """
    return hmac.compare_digest(found, _signature(content, secret_key))


def _content(fields: Mapping[str, str], body: bytes) -> bytes:
    values = "".join([fields[name] for name in signing_order(fields)])
    # As Java encodes a lone surrogate.
    return values.encode("utf-8", "replace") + body


def _signature(content: bytes, secret_key: str) -> bytes:
    key = secret_key.encode("utf-8", "replace")
    return b2a_base64(hmac.digest(key, content, _HASH), newline=False)


def signing_order(names: Iterable[str]) -> list[str]:
    """
    Returns the names of fields in the order in which their values are signed.
    """
    found = sorted(names)
    if "".join(found).isascii():
        return found
    # Java compares texts by their 16-bit units.
    return sorted(found, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
