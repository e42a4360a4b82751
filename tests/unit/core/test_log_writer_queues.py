"""
The queue table crosses the seam and comes back.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.core.log_writer import pack_queues, parse_queues
from pystore.errors import InvalidError

TOPICS = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@given(
    st.dictionaries(
        st.tuples(TOPICS, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)
    )
)
def test_packed_queues_are_parsed_back(queues: dict[tuple[str, int], int]) -> None:
    """
    Also topics that are no UTF-8, which a foreign log may hold.
    """
    assert queues == parse_queues(pack_queues(queues))


def test_the_form_is_the_one_of_the_header() -> None:
    """
    Topic size, topic, queue id, next queue offset, big-endian.
    """
    wanted = struct.pack(">H5siq", 5, b"Topic", 3, 9)

    assert wanted == pack_queues({("Topic", 3): 9})


@pytest.mark.parametrize("cut", range(1, 19))
def test_a_form_that_ends_early_is_refused(cut: int) -> None:
    """
    An incomplete entry is an error.
    """
    raw = pack_queues({("Topic", 3): 9})

    with pytest.raises(InvalidError, match="ends early"):
        parse_queues(raw[:cut])


@pytest.mark.parametrize(
    "queues", [{("T", -(2**31) - 1): 0}, {("T", 0): 2**63}, {("T" * 65536, 0): 1}]
)
def test_numbers_that_do_not_fit_are_named(queues: dict[tuple[str, int], int]) -> None:
    """
    The line says which queue.
    """
    with pytest.raises(InvalidError, match=r"^queue -?\d+ of topic 'T"):
        pack_queues(queues)
