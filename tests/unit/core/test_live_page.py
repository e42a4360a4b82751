"""
The live page has the ends that a writer published for readers.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from lib.store.logs import make_root, open_log

from pystore.core.live_page import LivePage, LiveWords
from pystore.core.log_reader import LogReader
from pystore.errors import ClosedError, InvalidError, NotAStoreError
from pystore.message.message import Message

WORDS = LiveWords(1, 2, bytes(range(16)), 3, 4, 5, 6, 7, 8, 9)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """
    A new live page.
    """
    path = tmp_path / "live"
    LivePage.create(path)
    return path


def test_readers_read_the_words_of_the_begin(page: Path) -> None:
    """
    Another mapping has every word.
    """
    with LivePage(page) as reader, LivePage(page, writable=True) as writer:
        assert bytes(16) == reader.read().boot_id
        writer.begin(WORDS._replace(format=reader.read().format))

        assert WORDS[1:] == reader.read()[1:]


def test_a_reader_cannot_begin(page: Path) -> None:
    """
    Only the writer's page is writable.
    """
    with LivePage(page) as reader, pytest.raises(InvalidError):
        reader.begin(WORDS)


def test_words_that_do_not_fit_are_refused(page: Path) -> None:
    """
    A value that does not fit is an error.
    """
    with LivePage(page, writable=True) as writer:
        with pytest.raises(InvalidError, match=r"no words for .*live"):
            writer.begin(WORDS._replace(mount_id=-1))
        assert bytes(16) == writer.read().boot_id


def test_a_closed_page_refuses_every_call(page: Path) -> None:
    """
    A second close is allowed.
    """
    live = LivePage(page)
    live.close()
    live.close()

    for call in (live.read, lambda: live.begin(WORDS)):
        with pytest.raises(ClosedError, match=r"live was closed"):
            call()


def test_a_log_keeps_its_page_mapped(tmp_path: Path) -> None:
    """
    The page may be closed and forgotten before the log that publishes in it.
    """
    root = make_root(tmp_path)
    path = root / "meta" / "live"
    LivePage.create(path)
    live = LivePage(path, writable=True)
    live.begin(WORDS._replace(format=live.read().format, published_end=0, synced_end=0))
    log = open_log(root, live)
    live.close()
    del live
    gc.collect()

    with log:
        end = log.append(Message("T", b"body").form).end

        with LivePage(path) as page, LogReader(root, live=page) as reader:
            assert end == page.read().published_end
            assert end == reader.ends().published_end
            assert b"body" == reader.read(0).body


def test_the_error_of_a_bad_page_has_its_path(tmp_path: Path) -> None:
    """
    Missing, of a wrong size, or other bytes.
    """
    with pytest.raises(NotAStoreError, match="no live page: make it again") as raised:
        LivePage(tmp_path / "missing")
    assert os.fspath(tmp_path / "missing") == raised.value.path

    other = tmp_path / "other"
    for content in (b"", b"x" * 100, b"x" * 4096):
        other.write_bytes(content)
        with pytest.raises(NotAStoreError, match="other"):
            LivePage(other)
