"""
The abort file: our text, Java's, and any other.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.errors import InvalidError
from pystore.rocketmq.abort_file import AbortNote, abort_text, parse_abort


def test_the_abort_text_names_process_and_incarnation() -> None:
    """
    Pystore's text, Java's and any other text give different notes.
    """
    incarnation = "12-" + "0f" * 16
    content = abort_text(4711, incarnation)
    assert f"4711 pystore {incarnation}".encode() == content
    assert AbortNote(4711, incarnation) == parse_abort(content)
    assert AbortNote(815, None) == parse_abort(b"815")
    for other in (
        b"",
        b"815\n",
        b"-1",
        b"4711 pystore 12",
        b"\xff\x00",
        content + b" ",
    ):
        assert AbortNote(None, None) == parse_abort(other)


def test_an_abort_text_without_incarnation_is_refused() -> None:
    """
    A later opening must recognise the text.
    """
    with pytest.raises(InvalidError, match="does not name a process"):
        abort_text(4711, "")


@given(st.binary(max_size=200))
def test_no_abort_text_is_an_error(content: bytes) -> None:
    """
    Any bytes give a note.
    """
    assert isinstance(parse_abort(content), AbortNote)
