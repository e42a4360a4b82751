"""
The keys of AutoRecovery in the record store, and the segments that they name. Pure.

All keys are below ``recovery/``: a space of their own, so the controller's requests do
not grow with them. The names of a set are escaped, so that a name cannot look like a
part of another key.

Source: AR-R19; docs/autorecovery.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

from pystore.errors import FormatError, InvalidError
from pystore.records.ops import check_key

__all__ = [
    "DEAD",
    "DISABLED",
    "KICK",
    "LOCKS",
    "MARKS",
    "SETTINGS",
    "SPACE",
    "WINDOW",
    "WORKERS",
    "SegmentKey",
    "escape_name",
    "page_key",
    "read_name",
]

SPACE = "recovery"
"""The first component of all keys: the space of a `RecordStore.wait`."""

MARKS = "recovery/ur/"
"""One record for each segment that lacks a good copy."""

LOCKS = "recovery/lock/"
"""One record for each segment that a worker repairs, held by the worker."""

DEAD = "recovery/dead/"
"""One record for each segment without a good copy."""

WINDOW = "recovery/window/"
"""The pages of the order in which segments are to be repaired: a hint."""

WORKERS = "recovery/status/worker/"
"""One record for each slot of a worker, held by the worker."""

SETTINGS = "recovery/settings"
"""The settings of AutoRecovery."""

DISABLED = "recovery/disabled"
"""Exists while no segment may be taken."""

KICK = "recovery/kick"
"""Written to ask for an audit now."""

_START_DIGITS = 20


@dataclass(frozen=True, slots=True, order=True)
class SegmentKey:
    """
    A segment of one broker set: the unit of repair.

    Attributes:
        cluster: the name of the cluster.
        set_name: the name of the broker set.
        start: the offset of the segment's first byte in the log.
    """

    cluster: str
    set_name: str
    start: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < 10**_START_DIGITS:
            raise InvalidError(f"a segment cannot begin at {self.start}")

    @property
    def text(self) -> str:
        """
        The end of the keys of the segment: ``CLUSTER/SET/START``, with 20 digits.
        """
        return f"{self.set_text}/{self.start:0{_START_DIGITS}}"

    @property
    def set_text(self) -> str:
        """
        The beginning of `text` that all segments of the set have: ``CLUSTER/SET``.
        """
        return f"{escape_name(self.cluster)}/{escape_name(self.set_name)}"

    @property
    def mark(self) -> str:
        """
        The key of its mark.

        Raises:
            InvalidError: the names are too long for a key; also of the other keys.
        """
        return _checked(MARKS, self)

    @property
    def lock(self) -> str:
        """
        The key of the lock of the worker that repairs it.
        """
        return _checked(LOCKS, self)

    @property
    def dead(self) -> str:
        """
        The key of the record that it has no good copy.
        """
        return _checked(DEAD, self)

    @classmethod
    def parse(cls, text: str) -> SegmentKey:
        """
        Returns the segment of a `text`.

        Raises:
            FormatError: it is none.
        """
        return _parsed(text)


def page_key(number: int) -> str:
    """
    Returns the key of a page of the window, from 0 on.
    """
    return f"{WINDOW}{number:03}"


@lru_cache(maxsize=4096)
def escape_name(text: str) -> str:
    """
    Returns a name as a part of a key, without a ``/``: as the controller writes it.
    """
    return quote(text, safe=":", errors="surrogatepass")


def read_name(text: str) -> str:
    """
    Returns the name of an escaped one.
    """
    return unquote(text, errors="surrogatepass")


@lru_cache(maxsize=4096)
def _parsed(text: str) -> SegmentKey:
    """
    Returns the segment of a text: a worker reads the same few ones again and again.
    """
    cluster, _, rest = text.partition("/")
    name, _, start = rest.partition("/")
    is_number = start.isascii() and start.isdigit() and len(start) == _START_DIGITS
    if is_number:
        key = SegmentKey(read_name(cluster), read_name(name), int(start))
        if key.text == text:
            return key
    raise FormatError(f"{text!r} is not CLUSTER/SET/START of a segment", path=text)


@lru_cache(maxsize=4096)
def _checked(prefix: str, key: SegmentKey) -> str:
    text = prefix + key.text
    check_key(text)
    return text
