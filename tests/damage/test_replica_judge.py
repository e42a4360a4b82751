"""
Random replica sets, one store of which is damaged at random: the verdicts of
``pystore spark verify`` compared with a rule that knows how the stores were made.

A set begins with one log. Masters append and begin epochs, replicas copy, lag, are
elected, or follow a master that was cut off.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lib.spark.verify_job import run_here

from pystore import CommitLog, Message, Store
from pystore.spark.verify.run import VerifyRun, verify_stores
from pystore.spark.verify.summary import is_bad
from pystore.store.sealer import seal_next
from pystore.verify import verify_store

SEED = int(os.environ.get("PS_SEED", "1"))
CASES = max(20, int(os.environ.get("DAMAGE_CASES", "600")) // 10)
SEGMENT = 16384


@dataclass
class _Replica:
    """
    A store, and the epochs of its bytes as they were written.
    """

    root: Path
    epochs: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0

    def epoch_at(self, offset: int) -> int:
        return max(epoch for epoch, start in self.epochs if start <= offset)


@dataclass
class _Set:
    """
    A random set of replicas. An epoch has one master, which writes until it is a copy.
    """

    folder: Path
    draw: random.Random
    has_queues: bool
    has_crc: bool
    replicas: list[_Replica] = field(default_factory=list)
    masters: list[_Replica] = field(default_factory=list)
    epoch: int = 0

    def make(self) -> None:
        names = "abcd"[: self.draw.choice((1, 2, 2, 3, 3, 3, 4))]
        self.replicas = [_Replica(self.folder / name) for name in names]
        master = self.replicas[0]
        self.write(master, self.draw.randrange(60, 200), is_elected=True)
        for one in self.replicas[1:]:
            self.copy(master, one)
        for _ in range(self.draw.randrange(5)):
            self.step()

    def step(self) -> None:
        kind = self.draw.choice(("append", "append", "copy", "elect"))
        one = self.draw.choice(self.replicas)
        if kind == "elect":
            self.write(one, self.draw.randrange(1, 80), is_elected=True)
        elif kind == "append" and self.masters:
            # Also one that was cut off.
            master = self.draw.choice(self.masters)
            self.write(master, self.draw.randrange(1, 80))
        elif kind == "copy" and self.masters:
            master = self.draw.choice(self.masters[-2:])
            if master is not one:
                self.copy(master, one)

    def write(self, one: _Replica, count: int, *, is_elected: bool = False) -> None:
        opened = Store if self.has_queues else CommitLog
        with opened(one.root, segment_size=SEGMENT, property_crc=self.has_crc) as store:
            log = store.log if isinstance(store, Store) else store
            if is_elected:
                self.epoch += 1
                self.masters = [each for each in self.masters if each is not one]
                self.masters.append(one)
                log.begin_epoch(self.epoch)
                start = log.end_offset
                kept = [each for each in one.epochs if each[1] < start]
                one.epochs = [*kept, (self.epoch, start)]
            for number in range(count):
                body = self.draw.randbytes(self.draw.randrange(400))
                log.append(Message(f"t{number % 2}", body, queue_id=number % 3))
            if self.draw.random() < 0.5:
                while seal_next(log.writer):
                    pass
            one.end = log.end_offset

    def copy(self, source: _Replica, target: _Replica) -> None:
        shutil.rmtree(target.root, ignore_errors=True)
        shutil.copytree(source.root, target.root)
        target.epochs, target.end = list(source.epochs), source.end
        self.masters = [each for each in self.masters if each is not target]

    def forks(self) -> dict[str, int]:
        """
        The first byte of each store that the history with the highest epoch does not
        have: found byte range after byte range, without a look at the tables on disk.
        """
        best = max(self.replicas, key=lambda each: (each.epochs[-1][0], each.end))
        last = best.epochs[-1][0]
        found = {}
        for one in self.replicas:
            edges = {0, best.end, *(s for _, s in (*one.epochs, *best.epochs))}
            for at in sorted(edge for edge in edges if edge < one.end):
                wanted = best.epoch_at(at) if at < best.end else last
                if one.epoch_at(at) != wanted:
                    found[one.root.name] = at
                    break
        return found


@dataclass
class _Harm:
    """
    The damage of one segment: its first byte, and whether ``pystore verify`` tells it.
    """

    victim: _Replica
    base: int = -1
    at: int = -1
    way: str = "nothing"
    is_told: bool = False


def _damage(one: _Replica, draw: random.Random) -> _Harm:
    """
    Damages a segment.
    """
    base = draw.randrange(0, one.end, SEGMENT)
    path = one.root / "commitlog" / f"{base:020d}"
    top = min(SEGMENT, one.end - base)
    way = draw.choice(("bit", "bit", "bit", "bit", "page", "remove"))
    if way == "remove":
        path.unlink()
        return _Harm(one, base, base, way)
    content = bytearray(path.read_bytes())
    at = draw.randrange(top)
    if way == "bit":
        content[at] ^= 1 << draw.randrange(8)
    else:
        at -= at % 512
        content[at : min(at + 512, top)] = bytes(min(512, top - at))
    path.write_bytes(content)
    return _Harm(one, base, base + at, way)


@pytest.fixture
def folder() -> Iterator[Path]:
    """
    A folder in memory, where nothing waits for a disk.
    """
    memory = "/dev/shm"
    place = memory if Path(memory).is_dir() else None
    path = Path(tempfile.mkdtemp("", "pystore-judge-", place))
    yield path
    shutil.rmtree(path)


def test_verdicts_on_random_replica_sets_are_right(folder: Path) -> None:
    """
    Each case is named by its number under the seed.
    """
    objections = {}
    for number in range(CASES):
        found = list(_case(folder, random.Random(f"{SEED} {number}")))
        if found:
            objections[number] = found
        for path in folder.iterdir():
            shutil.rmtree(path)

    assert {} == objections, f"seed {SEED}"


def _case(folder: Path, draw: random.Random) -> Iterator[str]:
    made = _Set(folder, draw, draw.random() < 0.5, draw.random() < 0.5)
    made.make()
    victim = draw.choice(made.replicas)
    harm = _Harm(victim)
    if draw.random() < 0.8:
        harm = _damage(victim, draw)
    told = [bool(verify_store(one.root).damages) for one in made.replicas]
    alone = [_verify(one.root) for one in made.replicas]
    for one, is_damaged, verdicts in zip(made.replicas, told, alone, strict=True):
        if is_bad(verdicts) != is_damaged:
            yield f"{harm}: {one.root.name} alone: verify says {is_damaged}"
    harm.is_told = told[made.replicas.index(victim)]
    together = _verify(*(one.root for one in made.replicas))
    for text in _objections(made, harm, together):
        yield f"{harm}, forks {made.forks()}: {text}"


def _verify(*roots: Path) -> VerifyRun:
    return verify_stores(run_here, map(str, roots), replicas="all")


def _objections(made: _Set, harm: _Harm, found: VerifyRun) -> Iterator[str]:
    victim, base, at, is_told = harm.victim, harm.base, harm.at, harm.is_told
    forks = made.forks()
    ends = {one.root.name: one.end for one in made.replicas}
    # Who has the damaged byte in the right history, and so can bear witness.
    witnesses = {
        name for name, end in ends.items() if at < min(end, forks.get(name, end))
    }
    is_tie = not is_told and len(witnesses) == 2
    bad = {
        (Path(one.store).name, one.segment): one
        for one in found.verdicts
        if one.is_bad and one.segment is not None
    }
    for (name, segment), one in bad.items():
        assert segment is not None
        is_hit = name == victim.root.name and segment == base
        is_forked = name in forks and segment + SEGMENT > forks[name]
        is_tied = is_tie and segment == base and name in witnesses
        if not (is_hit or is_forked or is_tied):
            yield f"healthy bytes are named: {name} {segment} {one.evidence}"
    for name, offset in forks.items():
        segments = range(offset - offset % SEGMENT, ends[name], SEGMENT)
        for segment in segments:
            if (name, segment) not in bad and (name, segment) != (
                victim.root.name,
                base,
            ):
                yield f"not named, though it parted at {offset}: {name} {segment}"
    if base >= 0:
        is_seen = is_told or (len(witnesses) > 1 and victim.root.name in witnesses)
        is_gone = not (victim.root / "commitlog" / f"{base:020d}").exists()
        if is_seen and not is_gone and (victim.root.name, base) not in bad:
            yield "the damage is not named"
    yield from _rows_of_stores(victim, is_told, found)


def _rows_of_stores(victim: _Replica, is_told: bool, found: VerifyRun) -> Sequence[str]:
    return [
        f"a healthy store is named: {one.store} {one.evidence}"
        for one in found.verdicts
        if one.is_bad and one.segment is None
        if Path(one.store) != victim.root or not is_told
    ]
