"""
Where one worker looks for work: a walk over the pages of the window.

Each worker begins at a place of its own among the most urgent keys, goes on key by key,
and after a few misses to another page; so workers seldom meet, and a repaired segment
costs as many requests with one worker as with many (AR-R19). Where the window has
nothing more, or there is none, a bounded part of the queue itself is read, at
intervals: it finds marks that rested when their page was read, or that lost their
worker.

Between two looks an idle worker glances, with one request: has the window changed, or
has one of the locks ended that it met? A lock ends with its worker, and no commit
tells that.

Source: AR-R4, AR-R5, AR-R19; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pystore.autorecovery.segment_key import LOCKS, MARKS, page_key
from pystore.autorecovery.window import PAGE_KEYS, WindowPage, decode_page
from pystore.errors import FormatError
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = ["WorkSearch"]

_MISSES_MAX = 2  # in a row: then another worker has been here
_PLACES = 4  # of one look
_EMPTY_MORE = 8  # places that are looked at beyond one of each page, before a rest
_FRESH_MS = 20_000  # how long a worker may not notice a new window
_SCAN_KEYS = 16
_SCAN_REST_MS = 60_000
_LOCKS_MAX = 16  # that were met and are looked at again
_RESTS_MAX = 16  # of segments that were met while they rested
_GLANCES_A_PAGE = 4  # one of them is at the window, if there are locks

_Candidate = tuple[str, StoredRecord | None]


class WorkSearch:
    """
    The place of one worker in the queue. One thread.

    Args:
        store: of the queue.
        chance: returns numbers from 0 up to 1, such as `random.Random.random`.
    """

    def __init__(self, store: RecordStore, chance: Callable[[], float]) -> None:
        self._store = store
        self._chance = chance
        self._place: list[_Candidate] = []  # the next one is the last
        self._rest: list[_Candidate] = []  # of the same page, less urgent
        self._has_place = False
        self._hits = 0
        self._misses = 0
        self._first: WindowPage | None = None
        self._read_ms: int | None = None
        self._page: int | None = None  # ``None``: the window is new
        self._empty = 0  # places in a row without a hit
        self._after = ""
        self._scan_again_ms = 0
        self._is_scanned = False
        self._paused: frozenset[str] = frozenset()
        self._locked: dict[str, None] = {}  # the next one is the first
        self._resting: dict[str, int] = {}  # until when
        self._freed: list[_Candidate] = []
        self._glances = 0

    def look(
        self, now_ms: int, paused: frozenset[str] = frozenset()
    ) -> Iterator[_Candidate]:
        """
        Yields candidates: the text of a segment and its mark as scanned, or ``None``:
        the mark is to be read. Call `hit` for the one that was taken and then stop;
        each other one is a miss.

        Args:
            now_ms: of the queue's clock.
            paused: the `SegmentKey.set_text` of sets whose segments are passed over,
                without a request.

        Raises:
            PystoreError: the record store cannot be read.
        """
        self._paused = paused
        while self._freed:
            candidate = self._freed.pop()
            if not self._is_paused(candidate[0]):
                yield candidate
        self._notice_window(now_ms)
        for _ in range(_PLACES):
            if not self._has_place and not self._find_place(now_ms):
                return
            while self._place and self._misses < _MISSES_MAX:
                candidate = self._place.pop()
                if self._is_paused(candidate[0]):
                    continue
                self._misses += 1
                yield candidate
            self._leave(now_ms)

    def hit(self) -> None:
        """
        The candidate that was yielded last is taken.
        """
        self._hits += 1
        self._misses = 0

    def met_lock(self, text: str) -> None:
        """
        The candidate that was yielded last is probably repaired by another worker.
        """
        if len(self._locked) < _LOCKS_MAX:
            self._locked[text] = None

    def met_rest(self, text: str, until_ms: int) -> None:
        """
        A segment rests, as a candidate or one that this worker could not repair yet.
        """
        if len(self._resting) < _RESTS_MAX:
            self._resting[text] = until_ms

    def glance(self, now_ms: int) -> bool:
        """
        Returns whether the next look may find more than the last one: one request at
        most, of a server.

        Args:
            now_ms: of the queue's clock.

        Raises:
            PystoreError: the record store cannot be read.
        """
        rested = [text for text, at_ms in self._resting.items() if at_ms <= now_ms]
        if rested:
            for text in rested:
                del self._resting[text]
            self._freed += [(text, None) for text in rested]
            return True
        self._glances += 1
        is_of_window = not self._locked or self._glances % _GLANCES_A_PAGE == 0
        if is_of_window and not self._store.reads_locally:
            return self._read_window(now_ms)
        if self._store.reads_locally and self._read_window(now_ms):
            return True
        return bool(self._locked) and self._has_lock_ended()

    def _has_lock_ended(self) -> bool:
        text = next(iter(self._locked))
        del self._locked[text]
        try:
            if self._store.get(f"{LOCKS}{text}") is not None:
                self._locked[text] = None
                return False
        except FormatError:
            # A damaged row of LMDB: the commit that takes the segment tells more.
            return False
        self._freed.append((text, None))
        # Its worker may have had others.
        self._scan_again_ms = 0
        return True

    def _is_paused(self, text: str) -> bool:
        return text.rpartition("/")[0] in self._paused

    def _leave(self, now_ms: int) -> None:
        has_hits = self._hits > 0
        self._empty = 0 if has_hits else self._empty + 1
        if self._is_scanned and not has_hits:
            rest_ms = _SCAN_REST_MS * (0.75 + self._chance() / 2)
            if self._locked:
                # Others have the work, and their ends are glanced at.
                rest_ms *= 2
            self._scan_again_ms = now_ms + int(rest_ms)
        self._place, self._rest = self._rest, []
        self._has_place = bool(self._place)
        self._hits = self._misses = 0

    def _notice_window(self, now_ms: int) -> None:
        """
        Reads the first page now and then: urgent segments may be published at any time.
        """
        if self._read_ms is None or not 0 <= now_ms - self._read_ms < _FRESH_MS:
            self._read_window(now_ms)

    def _read_window(self, now_ms: int) -> bool:
        """
        Reads the first page; returns whether the window is another one.
        """
        before, self._read_ms = self._first, now_ms
        self._first = self._read_page(0)
        if self._first is None or (before and before.issue == self._first.issue):
            return False
        self._page, self._empty = None, 0
        self._place, self._rest, self._has_place = [], [], False
        self._hits = self._misses = 0
        return True

    def _find_place(self, now_ms: int) -> bool:
        """
        Goes to the next page; without one, to a part of the queue.
        """
        first = self._first
        if first is None or not first.keys or self._empty >= first.pages + _EMPTY_MORE:
            return self._scan(now_ms)
        if self._page is None:
            self._page = int(self._chance() * first.spread) // PAGE_KEYS
        else:
            self._page += 1
        self._page %= max(first.pages, 1)
        page = first if self._page == 0 else self._read_page(self._page)
        keys = () if page is None else page.keys
        # The most urgent ones are apart: all of them come before any other one.
        urgent = max(0, first.spread - self._page * PAGE_KEYS)
        place, rest = keys[:urgent], keys[urgent:]
        self._is_scanned = False
        self._place = self._turned([(text, None) for text in place or rest])
        self._rest = self._turned([(text, None) for text in rest]) if place else []
        self._has_place = True
        return True

    def _turned(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """
        Returns all candidates from a random one on, the first one last.
        """
        at = int(self._chance() * len(candidates))
        return [*candidates[at:], *candidates[:at]][::-1]

    def _read_page(self, number: int) -> WindowPage | None:
        key = page_key(number)
        found = self._store.get(key)
        if found is None:
            return None
        try:
            return decode_page(found.value, key)
        except FormatError:
            # A hint that cannot be read is none; the Auditor writes it again.
            return None

    def _scan(self, now_ms: int) -> bool:
        # After a jump of the clock back the time is of no use.
        if now_ms < self._scan_again_ms <= now_ms + 3 * _SCAN_REST_MS:
            return False
        found = self._store.scan(MARKS, self._after, _SCAN_KEYS)
        if not found and self._after:
            found = self._store.scan(MARKS, "", _SCAN_KEYS)
        self._after = found[-1].key if len(found) == _SCAN_KEYS else ""
        if self._after and all(self._is_paused(_text(one)) for one in found):
            # Behind all keys of the last set.
            self._after = f"{self._after.rpartition('/')[0]}0"
        self._is_scanned = self._has_place = True
        self._place = self._turned(
            [(_text(one), one) for one in found if not one.damage]
        )
        if not self._place:
            self._leave(now_ms)
        return bool(self._place)


def _text(record: StoredRecord) -> str:
    return record.key.removeprefix(MARKS)
