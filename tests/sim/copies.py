"""
The segments of all stores of a set, as their files are: which copy has the right bytes,
and what only we may have made wrong.

The right bytes of a segment are those that a replica has below its confirm offset
before anything was done to any copy: no one may change them any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from lib.command_line import segment_file
from sim.broker import SEGMENT, Broker

__all__ = ["Copies"]

_Place = tuple[str, int]


class Copies:
    """
    All copies of all settled segments.

    Args:
        brokers: of the set, by name.
        known: the newest status of each broker that answers, by name.

    Attributes:
        right: the right bytes, by the begin of the segment.
        damaged: broker and segment of the copies that we made wrong.
        retained: brokers that were told to delete old segments.
    """

    def __init__(
        self, brokers: Mapping[str, Broker], known: Mapping[str, dict[str, Any]]
    ) -> None:
        self.right: dict[int, bytes] = {}
        self.damaged: set[_Place] = set()
        self.retained: set[str] = set()
        self._brokers = brokers
        self._known = known
        self._good: set[_Place] = set()
        # The begin of the log of the last known master.
        self._floor = 0

    # -- what is done to them ------------------------------------------------------

    def choose(self, draw: Random, *, is_last: bool = False) -> _Place | None:
        """
        Chooses a good copy that may be made wrong; ``None``: there is none.

        Args:
            draw: chance.
            is_last: also the last good one.
        """
        ones = sorted(
            (name, base)
            for name, base in self._good
            if is_last or self.good_of(base) - {name}
        )
        return draw.choice(ones) if ones else None

    def good_of(self, base: int) -> set[str]:
        """
        Returns the brokers with a good copy.
        """
        return {name for name, one in self._good if one == base}

    def has_last(self, name: str) -> bool:
        """
        Whether a broker has the last good copy of a segment.
        """
        return any(
            self.good_of(base) == {name} for one, base in self._good if one == name
        )

    def rot(self, place: _Place, draw: Random) -> None:
        """
        A bit of a record is another one. That the zeros after the last one were zeros
        is proven by the seal alone, which may not be there yet.
        """
        self._begin(place)
        at = draw.randrange(len(self.right[place[1]].rstrip(bytes(1))))
        with self._path(place).open("r+b") as file:
            file.seek(at)
            old = file.read(1)
            file.seek(at)
            file.write(bytes([old[0] ^ 1 << draw.randrange(8)]))

    def remove(self, place: _Place) -> None:
        """
        The file is gone.
        """
        self._begin(place)
        self._path(place).unlink()

    def shorten(self, place: _Place, draw: Random) -> None:
        """
        The file ends early.
        """
        self._begin(place)
        os.truncate(self._path(place), draw.randrange(SEGMENT))

    def emptied(self, name: str) -> None:
        """
        A broker lost its store.
        """
        self.retained.discard(name)
        self._good = {one for one in self._good if one[0] != name}
        self.damaged = {one for one in self.damaged if one[0] != name}

    def _begin(self, place: _Place) -> None:
        self._good.discard(place)
        self.damaged.add(place)

    # -- what must hold ------------------------------------------------------------

    def look(self) -> list[str]:
        """
        Reads all copies; returns what must not be so.
        """
        self._learn()
        found: list[str] = []
        for name in self._brokers:
            bases = self._bases(name)
            for base in list(self.right):
                found += self._look_at(name, base, bases)
        return [*found, *self._untrue()]

    def _learn(self) -> None:
        for name, now in self._known.items():
            begin, confirm = now["minOffset"], now["confirmOffset"]
            if begin is None:
                continue
            for base in range(begin, confirm - SEGMENT + 1, SEGMENT):
                if base not in self.right:
                    found = self._read((name, base))
                    if found is not None:
                        self.right[base] = found

    def _look_at(self, name: str, base: int, bases: list[int]) -> Iterator[str]:
        place = name, base
        bytes_now = self._read(place)
        if bytes_now == self.right[base]:
            self._good.add(place)
            self.damaged.discard(place)
            return
        if place not in self._good:
            return
        self._good.discard(place)
        if bytes_now is None and self._may_delete(name, base, bases):
            return
        what = "is gone" if bytes_now is None else "has other bytes"
        yield f"I5: the good copy of {base} of {name} {what}: files {bases}"

    def _may_delete(self, name: str, base: int, bases: list[int]) -> bool:
        """
        Whether the replica may have deleted a segment: by retention, or because the
        master has none of its log any more.
        """
        is_lowest = not any(one < base for one in bases)
        floor = max(
            (
                one["minOffset"] or 0
                for one in self._known.values()
                if one["role"] == "master"
            ),
            default=0,
        )
        return (name in self.retained and is_lowest) or base < floor

    def _untrue(self) -> Iterator[str]:
        """
        I4: what a replica tells as its log, it has, but for what we made wrong.
        """
        for name, now in self._known.items():
            if now["minOffset"] is None or not self._brokers[name].is_up:
                continue
            bases = self._bases(name)
            lowest = min(bases, default=0)
            for base in self.right:
                place = name, base
                if (
                    max(now["minOffset"], lowest) <= base
                    and base + SEGMENT <= now["confirmOffset"]
                    and place not in self._good
                    and place not in self.damaged
                ):
                    yield f"I4: {name} tells that it has {base}, and has not: {now}"
            if now["role"] != "master":
                continue
            if now["isFilling"] and now["minOffset"] > self._floor:
                yield f"I4: {name} leads, and lacks what begins at {self._floor}: {now}"
            self._floor = now["minOffset"]

    def missing(self, floor: int) -> list[_Place]:
        """
        Returns the copies at and above a floor that are not good.
        """
        return sorted(
            (name, base)
            for name in self._brokers
            for base in self.right
            if base >= floor and (name, base) not in self._good
        )

    # -- files ---------------------------------------------------------------------

    def _path(self, place: _Place) -> Path:
        name, base = place
        return segment_file(self._brokers[name].store, base)

    def _read(self, place: _Place) -> bytes | None:
        try:
            return self._path(place).read_bytes()
        except FileNotFoundError:
            # It vanished, was deleted, or never was there.
            return None

    def _bases(self, name: str) -> list[int]:
        folder = self._brokers[name].store / "commitlog"
        try:
            return sorted(int(one) for one in os.listdir(folder) if one.isdigit())
        except FileNotFoundError:
            # It has no store now.
            return []
