"""
Dead segments and their return, on each backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from lib.autorecovery.marks import ABSENT_COPY, LOST_COPY, a_mark, segment
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.claim import Claim, begin_claim
from pystore.autorecovery.dead_segment import (
    DeadSegment,
    bury,
    decode_dead,
    encode_dead,
    revive,
)
from pystore.autorecovery.mark import decode_mark, encode_mark
from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.errors import FormatError
from pystore.records.memory import Fault, MemoryStore
from pystore.records.ops import Op
from pystore.records.record_store import RecordStore

KEY = segment(1)
TRIED = replace(a_mark(), tries=12, not_before_ms=9)


def claimed(store: RecordStore) -> Claim:
    """
    A claim of a segment that was tried often.
    """
    version = put(store, KEY.mark, encode_mark(TRIED))
    claim = begin_claim(store, KEY, TRIED, version, worker="w/0", nonce="1")
    assert claim is not None
    return claim


def test_a_dead_segment_comes_back_from_its_record() -> None:
    """
    With fields of a later program; what is none is refused.
    """
    dead = DeadSegment(TRIED, "2: absent\n3: corrupt", 5, "w/0")
    assert dead == decode_dead(encode_dead(dead), "key")
    values = {**decode_form(encode_dead(dead), "key").values, "later": 1}
    again = decode_dead(encode_form(values), "key")

    assert {"later": 1} == again.more
    assert decode_dead(encode_dead(again), "key") == again
    with pytest.raises(FormatError, match=r"^record key: mark is None"):
        decode_dead(b'{"form":1}', "key")


def test_a_segment_is_buried_with_its_evidence(store: RecordStore) -> None:
    """
    AR-R9: mark and lock go, the dead record comes, in one commit.
    """
    assert bury(store, claimed(store), "2: absent", 5)

    (found,) = store.scan("recovery/")
    assert KEY.dead == found.key
    assert DeadSegment(TRIED, "2: absent", 5, "w/0") == decode_dead(found.value, "")


def test_what_was_marked_meanwhile_is_not_buried(
    space: Space, store: RecordStore
) -> None:
    """
    The new fact may be a new copy.
    """
    claim = claimed(store)
    put(space.open(), KEY.mark, encode_mark(a_mark({3: LOST_COPY})))

    assert not bury(store, claim, "", 5)
    assert [KEY.lock, KEY.mark] == [one.key for one in store.scan("recovery/")]


def test_a_revived_segment_is_tried_at_once(space: Space, store: RecordStore) -> None:
    """
    Its tries begin again; the second call finds nothing.
    """
    assert bury(store, claimed(store), "", 5)
    assert revive(space.open(), KEY, 99)
    assert not revive(store, KEY, 99)

    (found,) = store.scan("recovery/")
    assert KEY.mark == found.key
    fresh = replace(TRIED, tries=0, not_before_ms=0, last_ms=99)
    assert fresh == decode_mark(found.value, "")


def test_a_mark_that_a_dead_segment_has_already_stays(store: RecordStore) -> None:
    """
    It knows more.
    """
    assert bury(store, claimed(store), "", 5)
    mark = a_mark({7: ABSENT_COPY})
    version = put(store, KEY.mark, encode_mark(mark))
    assert revive(store, KEY, 99)

    (found,) = store.scan("recovery/")
    assert (KEY.mark, version) == (found.key, found.version)


class Marked(MemoryStore):
    """
    A store in which another process marks the segment before the first commit.
    """

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        The second one is the own.
        """
        if self.get(KEY.mark) is None and self.get(KEY.dead) is not None:
            put(MemoryStore(self.space), KEY.mark, b"other")
        return super().commit(ops)


def test_a_mark_that_comes_in_between_is_kept() -> None:
    """
    A compare-and-set, tried again.
    """
    store = Marked()
    dead = encode_dead(DeadSegment(TRIED, "", 1, "w"))
    put(MemoryStore(store.space), KEY.dead, dead)

    assert revive(store, KEY, 99)
    assert [(KEY.mark, b"other")] == [(r.key, r.value) for r in store.scan()]


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_a_revival_whose_answer_was_lost_is_done(fault: Fault) -> None:
    """
    Once.
    """
    faults = [fault, Fault.NONE]
    store = MemoryStore(
        faults=lambda verb: faults.pop() if verb == "commit" and faults else Fault.NONE
    )
    put(store, KEY.dead, encode_dead(DeadSegment(TRIED, "", 1, "w")))

    assert revive(store, KEY, 99)
    assert [KEY.mark] == [one.key for one in store.scan()]
