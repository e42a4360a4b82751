"""
RocketMQ's ``abort``: present while a program has the store open. Pure.

Layout: docs/format.md, small files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pystore.errors import InvalidError

__all__ = ["AbortNote", "abort_text", "parse_abort"]

_OUR_ABORT = re.compile(r"([0-9]{1,19}) pystore ([0-9]+-[0-9a-f]{32})")
_JAVA_ABORT = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class AbortNote:
    """
    Which process left the ``abort`` file, as far as its text shows.

    Attributes:
        pid: the process id, ``None`` if the text has none.
        incarnation: of a pystore process, ``None`` for another program.
    """

    pid: int | None
    incarnation: str | None


def abort_text(pid: int, incarnation: str) -> bytes:
    """
    The content of ``abort`` while pystore has the store open (A7).

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
    Read ``abort``: the text of pystore, Java's decimal process id, or any other text.

    The presence of the file is what counts, so no text is an error.
    """
    text = content.decode("latin-1")
    if match := _OUR_ABORT.fullmatch(text):
        return AbortNote(int(match[1]), match[2])
    if _JAVA_ABORT.fullmatch(text):
        return AbortNote(int(text), None)
    return AbortNote(None, None)
