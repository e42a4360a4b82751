"""
RocketMQ's ``brokerIdentity`` and ``brokerIdentity-temp``: bytes to values and back.
Pure.

They are exports of what ``meta/`` knows, and imports where another program wrote
them. A missing file is normal, an unreadable one is an error (RMQ-R16): a broker that
cannot read its identity must not take another one.

Layout: docs/format.md, small files (RocketMQ 5.3: ``BrokerMetadata``,
``TempBrokerMetadata``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pystore.errors import FormatError, InvalidError
from pystore.fs.layout import IDENTITY_FILE, TEMPORARY_IDENTITY_FILE
from pystore.stored_names import stored

__all__ = [
    "BrokerIdentity",
    "TemporaryIdentity",
    "parse_identity",
    "parse_temporary_identity",
]

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


def _checked_name(what: str, name: str) -> None:
    if not name:
        raise InvalidError(f"the {what} is empty")
    if "#" in name:
        raise InvalidError(f"the {what} {name!r} has a '#', which separates the fields")


@stored
@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """
    The content of ``brokerIdentity``: cluster, broker name and broker id.

    Raises:
        InvalidError: a name is empty or holds ``#`` (RMQ-R15), or the id has more
            than 64 bits.
    """

    cluster: str
    broker: str
    broker_id: int

    def __post_init__(self) -> None:
        _checked_name("cluster name", self.cluster)
        _checked_name("broker name", self.broker)
        if not -(2**63) <= self.broker_id < 2**63:
            raise InvalidError(f"broker id {self.broker_id} has more than 64 bits")

    def encode(self) -> bytes:
        """
        The file's content.
        """
        return f"{self.cluster}#{self.broker}#{self.broker_id}".encode()


@stored
@dataclass(frozen=True, slots=True)
class TemporaryIdentity:
    """
    An identity that no controller has confirmed: ``brokerIdentity-temp``.

    Raises:
        InvalidError: the check code is empty or holds ``#`` (RMQ-R15).
    """

    identity: BrokerIdentity
    register_check_code: str

    def __post_init__(self) -> None:
        _checked_name("register check code", self.register_check_code)

    def encode(self) -> bytes:
        """
        The file's content.
        """
        return self.identity.encode() + b"#" + self.register_check_code.encode()


def _identity_fields(content: bytes, count: int, path: str) -> list[str]:
    advice = (
        "restore it, or remove it: a store that knows its broker (meta/) writes it "
        "anew, any other registers as a new one"
    )
    try:
        fields = content.decode().split("#")
    except UnicodeDecodeError as error:
        # Java would replace the bad bytes and so take another name.
        raise FormatError(
            f"{path}: byte {error.start} is not UTF-8: {advice}", path=path
        ) from None
    if len(fields) != count or not all(fields):
        raise FormatError(
            f"{path}: {content[:80]!r} is not {count} fields joined with '#': {advice}",
            path=path,
        )
    if not _INTEGER.fullmatch(fields[2]) or not -(2**63) <= int(fields[2]) < 2**63:
        raise FormatError(
            f"{path}: broker id {fields[2][:40]!r} is not a 64-bit number: {advice}",
            path=path,
        )
    return fields


def parse_identity(content: bytes, path: str = IDENTITY_FILE) -> BrokerIdentity:
    """
    Read ``brokerIdentity``.

    Stricter than Java where Java guesses: more than three fields mean that a
    name held ``#`` (RMQ-R15), empty ones that a write was lost (RMQ-R16).

    Raises:
        FormatError: it is not ``cluster#broker#id``.
    """
    cluster, broker, broker_id = _identity_fields(content, 3, path)
    return BrokerIdentity(cluster, broker, int(broker_id))


def parse_temporary_identity(
    content: bytes, path: str = TEMPORARY_IDENTITY_FILE
) -> TemporaryIdentity:
    """
    Read ``brokerIdentity-temp``.

    Raises:
        FormatError: it is not ``cluster#broker#id#checkCode``.
    """
    cluster, broker, broker_id, code = _identity_fields(content, 4, path)
    return TemporaryIdentity(BrokerIdentity(cluster, broker, int(broker_id)), code)
