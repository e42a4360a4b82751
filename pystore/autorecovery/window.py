"""
The window: the order of repair, in pages of keys that the Auditor publishes.

It is a hint. A worker reads one page and takes segments of it, so that the requests per
repaired segment do not grow with the number of workers (AR-R19). The queue itself is
the marks: a page may name segments that are repaired already, and lack others.

Source: AR-R4, AR-R5; docs/autorecovery.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pystore.autorecovery.mark import Reason, SegmentMark
from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import SegmentKey, page_key
from pystore.errors import FormatError
from pystore.records.ops import CheckVersion, Delete, Op, Put, commit_bytes
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = [
    "PAGE_KEYS",
    "WindowPage",
    "decode_page",
    "encode_page",
    "in_order",
    "next_issue",
    "pages_of",
    "put_in_front",
    "window_commits",
]

PAGE_KEYS = 200
"""Keys in a page: some 10 kB."""

_SPREAD_PAGES = 4
_COMMIT_BYTES = 400_000


@dataclass(frozen=True, slots=True)
class WindowPage:
    """
    A page.

    Attributes:
        keys: the `SegmentKey.text` of its segments, the most urgent first.
        pages: the number of pages of the window.
        spread: among how many keys of the window workers begin, from its first one on.
        issue: of the window; another number with each publication.
    """

    keys: tuple[str, ...]
    pages: int
    spread: int
    issue: int


def in_order(marks: Mapping[SegmentKey, SegmentMark]) -> tuple[list[str], int]:
    """
    Returns the texts of segments in the order of repair, and how many of the first
    ones are equally urgent.

    Of the segments that a replica is filled with the highest is the first: the others
    cannot be put in place before.
    """
    depths = _depths(marks)

    def place(one: tuple[SegmentKey, SegmentMark]) -> tuple[Any, ...]:
        key, mark = one
        *urgent, first_ms = mark.urgency
        return (*urgent, depths.get(key, 0), first_ms, key)

    ordered = sorted(marks.items(), key=place)
    ranks = [(mark.rank, depths.get(key, 0)) for key, mark in ordered]
    same = next((at for at, one in enumerate(ranks) if one != ranks[0]), len(ranks))
    return [key.text for key, _ in ordered], same


def _depths(marks: Mapping[SegmentKey, SegmentMark]) -> dict[SegmentKey, int]:
    """
    Of segments that replicas are filled with: how many of the same set are above it.
    """
    above: dict[tuple[str, str], int] = {}
    depths = {}
    for key in sorted(marks, reverse=True):
        facts = marks[key].missing.values()
        if facts and all(one.reason is Reason.FILL for one in facts):
            names = key.cluster, key.set_name
            depths[key] = above.get(names, 0)
            above[names] = depths[key] + 1
    return depths


def pages_of(
    keys: Sequence[str], equal: int, issue: int, claims: int
) -> list[WindowPage]:
    """
    Returns the pages of a window; an empty one has one page.

    Args:
        keys: in the order of repair.
        equal: how many of the first ones are equally urgent.
        issue: of the window.
        claims: that there are: the more workers, the further apart they begin, and
            the less they meet.
    """
    starts = range(0, max(len(keys), 1), PAGE_KEYS)
    spread = max(1, min(equal, (_SPREAD_PAGES + claims) * PAGE_KEYS))
    return [
        WindowPage(tuple(keys[at : at + PAGE_KEYS]), len(starts), spread, issue)
        for at in starts
    ]


def window_commits(
    old: Iterable[str], pages: Sequence[WindowPage], check: CheckVersion | None
) -> Iterable[list[Op]]:
    """
    Yields the operations of the commits that publish a window. The first page is last:
    it tells the issue.

    Args:
        old: keys of the pages that there are.
        pages: of the new window.
        check: of the Auditor's term, for each commit; ``None``: none.
    """
    texts = [page_key(number) for number in range(len(pages))]
    first: list[Op] = [] if check is None else [check]
    ops: list[Op] = [*first, *(Delete(key) for key in set(old) - set(texts))]
    for text, page in reversed(list(zip(texts, pages, strict=True))):
        put = Put(text, encode_page(page))
        if commit_bytes([*ops, put]) > _COMMIT_BYTES:
            yield ops
            ops = list(first)
        ops.append(put)
    yield ops


def next_issue(old: Iterable[StoredRecord]) -> int:
    """
    Returns the issue of a window that replaces these pages.
    """
    issue = 0
    for one in old:
        # A page that cannot be read is a hint less.
        with contextlib.suppress(FormatError):
            issue = max(issue, decode_page(one.value, one.key).issue)
    return issue + 1


def put_in_front(store: RecordStore, *keys: SegmentKey) -> bool:
    """
    Puts segments in front of the published ones, where every worker begins.

    Args:
        store: of the window.
        keys: of the segments, at least one, the most urgent first.

    Returns:
        Whether it was done; not, if the window was published meanwhile.
    """
    where = page_key(0)
    found = store.get(where)
    old = None
    if found is not None:
        # A page that cannot be read is a hint less.
        with contextlib.suppress(FormatError):
            old = decode_page(found.value, where)
    front = tuple(key.text for key in keys)
    if old is None:
        page = WindowPage(front, 1, len(front), 1)
    else:
        others = tuple(one for one in old.keys if one not in front)
        page = replace(
            old, keys=(*front, *others), spread=len(front), issue=old.issue + 1
        )
    version = 0 if found is None else found.version
    ops: list[Op] = [CheckVersion(where, version), Put(where, encode_page(page))]
    return store.commit(ops) is not None


def encode_page(page: WindowPage) -> bytes:
    """
    Returns the record of a page.
    """
    return encode_form(
        {
            "keys": list(page.keys),
            "pages": page.pages,
            "spread": page.spread,
            "issue": page.issue,
        }
    )


def decode_page(raw: bytes, where: str) -> WindowPage:
    """
    Returns the page of a record.

    Raises:
        FormatError: it is none, or has a later form.
    """
    return _decoded(raw, where)


@lru_cache(maxsize=64)
def _decoded(raw: bytes, where: str) -> WindowPage:
    """
    Returns the page of a record: a worker without work reads the same one all the time.
    """
    fields = decode_form(raw, where)
    return WindowPage(
        tuple(fields.list_of("keys", str)),
        fields.number("pages"),
        fields.number("spread"),
        fields.number("issue"),
    )
