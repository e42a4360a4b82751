"""
RocketMQ's small files in the root of a store: bytes to values and back. Pure.

They are exports of what ``meta/`` knows, and imports where another program
wrote them. Absent is an answer, unreadable is an error (R16): a broker that
cannot read who it is must not become somebody else.

Layouts: docs/format.md, small files (RocketMQ 5.3: ``BrokerMetadata``,
``TempBrokerMetadata``, ``StoreCheckpoint``). The epoch file is in
`pystore.epochs.file`.
"""

from __future__ import annotations

import re
import struct
from dataclasses import astuple, dataclass

from pystore.errors import FormatError, InvalidError
from pystore.fs.layout import CHECKPOINT, IDENTITY_FILE, TEMPORARY_IDENTITY_FILE
from pystore.stored_names import stored

__all__ = [
    "CHECKPOINT_BYTES",
    "LOCK_TEXT",
    "AbortNote",
    "BrokerIdentity",
    "CheckpointTimes",
    "TemporaryIdentity",
    "abort_text",
    "parse_abort",
    "parse_checkpoint",
    "parse_identity",
    "parse_temporary_identity",
]


LOCK_TEXT = b"lock"
"""What Java writes into the lock file."""

CHECKPOINT_BYTES = 4096

_CHECKPOINT = struct.Struct(">5q")
_TIMESTAMP_SLACK_MS = 3000
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_OUR_ABORT = re.compile(r"([0-9]{1,19}) pystore ([0-9]+-[0-9a-f]{32})")
_JAVA_ABORT = re.compile(r"[0-9]{1,19}")


def _checked_name(what: str, name: str) -> None:
    if not name:
        raise InvalidError(f"the {what} is empty")
    if "#" in name:
        raise InvalidError(f"the {what} {name!r} has a '#', which separates the fields")


@stored
@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """
    Who the broker is: the content of ``brokerIdentity``.

    Raises:
        InvalidError: a name is empty or holds ``#`` (R15), or the id has more
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
        InvalidError: the check code is empty or holds ``#`` (R15).
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
        # Java would replace the bad bytes and go on under another name.
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
    name held ``#`` (R15), empty ones that a write was lost (R16).

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


@stored
@dataclass(frozen=True, slots=True)
class CheckpointTimes:
    """
    The content of ``checkpoint``: store times in ms, offsets in bytes.

    Attributes:
        physic_ms: of the last flushed record of the log.
        logics_ms: of the last flushed entry of a consume queue.
        index_ms: the end time of the last flushed index file.
        master_flushed_offset: the master's flushed offset as last heard.
        confirm_offset: the confirm offset.
    """

    physic_ms: int = 0
    logics_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0

    def __post_init__(self) -> None:
        if not all(0 <= value < 2**63 for value in astuple(self)):
            raise InvalidError(f"{self}: a value is negative or above 2^63-1")

    @property
    def min_ms(self) -> int:
        """
        Java's ``minTimestamp``: recovery after a crash starts at or below it.
        """
        return max(0, min(self.physic_ms, self.logics_ms) - _TIMESTAMP_SLACK_MS)

    @property
    def min_index_ms(self) -> int:
        """
        Java's ``minTimestampIndex``: the same where the index must be whole.
        """
        return min(self.min_ms, self.index_ms)

    def limited(self, store_ms: int, end: int) -> CheckpointTimes:
        """
        The same, but nothing is newer than a log's last record, or above its end.
        """
        return CheckpointTimes(
            physic_ms=min(self.physic_ms, store_ms),
            logics_ms=min(self.logics_ms, store_ms),
            index_ms=min(self.index_ms, store_ms),
            master_flushed_offset=self.master_flushed_offset,
            confirm_offset=min(self.confirm_offset, end),
        )

    def encode(self) -> bytes:
        """
        The file's content, 4096 bytes.
        """
        return _CHECKPOINT.pack(*astuple(self)).ljust(CHECKPOINT_BYTES, b"\0")


def parse_checkpoint(content: bytes, path: str = CHECKPOINT) -> CheckpointTimes:
    """
    Read ``checkpoint``.

    Raises:
        FormatError: not 4096 bytes, a negative value, or bytes that no field
            has.
    """
    advice = "move it away: recovery then reads the whole log"
    if len(content) != CHECKPOINT_BYTES:
        raise FormatError(
            f"{path}: {len(content)} bytes instead of {CHECKPOINT_BYTES}: {advice}",
            path=path,
        )
    values = _CHECKPOINT.unpack_from(content)
    if min(values) < 0:
        at = 8 * values.index(min(values))
        raise FormatError(
            f"{path}: the value at byte {at} is negative: {advice}", path=path
        )
    rest = content[_CHECKPOINT.size :]
    if any(rest):
        at = _CHECKPOINT.size + len(rest) - len(rest.lstrip(b"\0"))
        raise FormatError(
            f"{path}: byte {at} is not zero, and no field is there: {advice}",
            path=path,
        )
    return CheckpointTimes(*values)


@dataclass(frozen=True, slots=True)
class AbortNote:
    """
    Who left the ``abort`` file, as far as its text tells.

    Attributes:
        pid: the process id, ``None`` if the text has none.
        incarnation: our own process's incarnation, ``None`` if it is not ours.
    """

    pid: int | None
    incarnation: str | None


def abort_text(pid: int, incarnation: str) -> bytes:
    """
    What we put into ``abort`` while the store is open (safety A7).

    Args:
        pid: the writer's process id.
        incarnation: `pystore.metastore.values.Incarnation.text`.
    """
    content = f"{pid} pystore {incarnation}"
    if not _OUR_ABORT.fullmatch(content):
        raise InvalidError(f"{content!r} does not name a process and an incarnation")
    return content.encode()


def parse_abort(content: bytes) -> AbortNote:
    """
    Read ``abort``: ours, Java's decimal process id, or anybody's.

    The file says only that somebody was here; every text has a meaning, so
    nothing is an error.
    """
    text = content.decode("latin-1")
    if ours := _OUR_ABORT.fullmatch(text):
        return AbortNote(int(ours[1]), ours[2])
    if _JAVA_ABORT.fullmatch(text):
        return AbortNote(int(text), None)
    return AbortNote(None, None)
