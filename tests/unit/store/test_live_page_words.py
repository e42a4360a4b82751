"""
A writer believes no word of the live page: another program may have written it (A18).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lib.store.stores import bodies, fill, message

from pystore import Message
from pystore.errors import PoisonedError
from pystore.fs.layout import LIVE_NAME, META_NAME
from pystore.store.commit_log import CommitLog

WORDS = {
    "published end": 48,
    "synced end": 56,
    "confirm offset": 64,
    "minimum offset": 72,
    "cut generation": 80,
    "cut offset": 88,
}
SEGMENT = 1 << 13
# Down and up: within a record, a segment, the log (45,090 bytes), far behind it.
BITS = (0, 1, 12, 13, 15, 22, 40, 63)


def _change(root: Path, at: int, bit: int) -> None:
    page = os.open(root / META_NAME / LIVE_NAME, os.O_RDWR)
    try:
        word = int.from_bytes(os.pread(page, 8, at), "little") ^ 1 << bit
        os.pwrite(page, word.to_bytes(8, "little"), at)
    finally:
        os.close(page)


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("word", WORDS)
def test_no_word_of_another_program_makes_an_append_synced(
    tmp_path: Path, word: str, bit: int
) -> None:
    """
    With a raised synced end an append was acknowledged without a sync, and a lowered
    one ended the process. The log is poisoned instead, and loses no record.
    """
    root = tmp_path / "s"
    log = CommitLog(root, segment_size=SEGMENT)
    fill(log, 200)
    log.sync()
    _change(root, WORDS[word], bit)

    for ack in ("leader-synced", "leader"):
        with pytest.raises(PoisonedError, match="live page"):
            log.append(Message("t", b"one more"), ack=ack)
    with pytest.raises(PoisonedError, match="live page"):
        log.close()

    with CommitLog(root) as log:
        assert [message(number).body for number in range(200)] == bodies(log)[:200]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_another_program_is_found_without_an_append(
    tmp_path: Path, word: str
) -> None:
    """
    By the check of each second. The page has the writer's word again, on which the
    next opening rests.
    """
    root = tmp_path / "s"
    log = CommitLog(root, segment_size=SEGMENT)
    fill(log, 200)
    before = (root / META_NAME / LIVE_NAME).read_bytes()
    _change(root, WORDS[word], 13)

    with pytest.raises(PoisonedError, match="live page"):
        log.keep()

    assert before == (root / META_NAME / LIVE_NAME).read_bytes()
    with pytest.raises(PoisonedError, match="live page"):
        log.close()
    with CommitLog(root) as log:
        assert [message(number).body for number in range(200)] == bodies(log)
