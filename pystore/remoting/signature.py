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
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha1

from pystore.errors import InvalidError
from pystore.remoting.command import RemotingCommand

__all__ = [
    "ACCESS_KEY",
    "SECURITY_TOKEN",
    "SIGNATURE",
    "Credentials",
    "is_signed_by",
    "signed",
]

ACCESS_KEY = "AccessKey"
"""The field with the name of the user."""

SECURITY_TOKEN = "SecurityToken"
"""A field that some clients add; signed as any other."""

SIGNATURE = "Signature"
"""The field with the signature, which does not cover itself."""

_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
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


def signed(request: RemotingCommand, user: Credentials) -> RemotingCommand:
    """
    Returns the request with the fields of the user and the signature.
    """
    fields = {**request.ext_fields, ACCESS_KEY: user.access_key}
    if user.security_token:
        fields[SECURITY_TOKEN] = user.security_token
    fields.pop(SIGNATURE, None)
    fields[SIGNATURE] = _signature(fields, request.body, user.secret_key)
    return replace(request, ext_fields=fields)


def is_signed_by(request: RemotingCommand, secret_key: str) -> bool:
    """
    Whether the signature of a request was made with this key. The time that it takes
    tells nothing of the key.
    """
    fields = dict(request.ext_fields)
    found = fields.pop(SIGNATURE, "")
    if request.version <= _VERSION_UNSIGNED_QUERY:
        fields.pop(_UNIQUE_KEY_QUERY, None)
    expected = _signature(fields, request.body, secret_key)
    return hmac.compare_digest(found.encode("utf-8", "replace"), expected.encode())


def _signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    values = "".join([fields[name] for name in _in_order_of_java(fields)])
    # As Java encodes a lone surrogate.
    content = values.encode("utf-8", "replace") + body
    key = secret_key.encode("utf-8", "replace")
    return b64encode(hmac.digest(key, content, sha1)).decode()


def _in_order_of_java(names: Iterable[str]) -> list[str]:
    found = sorted(names)
    if all(name.isascii() for name in found):
        return found
    # Java compares texts by their 16-bit units.
    return sorted(found, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
