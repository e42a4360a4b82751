"""
The proof: a workload is recorded, and every crash in it is looked at.
"""

from __future__ import annotations

import os
import random
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path

from crash import workloads
from crash.boots import another_boot, same_boot
from crash.check import check_store
from crash.disk import PAGE, Disk
from crash.facts import Facts
from crash.note_writer import NoteWriter
from crash.recording import Child, Effect, Kind, run_child
from crash.states import STORE, Image, after_kill, power_cuts

__all__ = ["SEED", "STATES", "Proof"]

STATES = int(os.environ.get("CRASH_STATES", "120"))
"""The number of checked crash states of each workload."""

SEED = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().getrandbits(32)


Check = Callable[[Path, Facts, bool], None]

_KILLS, _CUTS, _EACH = 3, 9, 2  # shares of the states, and of each kind at a point
_QUIET = (Kind.MARK, Kind.MAP, Kind.CLOSE)


class Proof:
    """
    One store, recorded over one process or several.

    Args:
        folder: an empty directory, best on a file system in memory.

    Attributes:
        folder: what is recorded.
        store: the store's directory in it.
        boot_id: of the boot in which processes run; empty: the real one.
        facts: what was promised up to now.
        disk: the files as they may be on the disk.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "recorded"
        self.folder.mkdir()
        self.store = self.folder / STORE
        self.boot_id = ""
        self.facts = Facts()
        self.disk = Disk(self.folder)

    def prepare(self, name: str) -> None:
        """Make a store by a function of `workloads`; all of it is on disk."""
        writer = NoteWriter(self.store, name)
        getattr(workloads, f"prepare_{name}")(writer)
        for note in writer.notes:
            self.facts.take(note, [])
        self.disk = Disk(self.folder)

    def record(
        self,
        name: str,
        *,
        zero_range: bool = True,
        kill_after: int | None = None,
    ) -> Child:
        """Run a workload in the store as it is; the model must end where it ended."""
        script = Path(workloads.__file__)
        child = run_child(
            self.folder,
            script,
            name,
            str(self.store),
            *([self.boot_id] if self.boot_id else []),
            zero_range=zero_range,
            kill_after=kill_after,
        )
        model = deepcopy(self.disk)
        model.begin_process()
        for effect in child.effects:
            model.apply(effect)
        assert_same(model, self.folder)
        return child

    def take(self, child: Child) -> None:
        """Add the effects and the notes of a process."""
        self.disk.begin_process()
        notes = [one.note for one in child.effects if one.kind is Kind.MARK]
        for effect in child.effects:
            self.disk.apply(effect)
        for number, note in enumerate(notes, 1):
            self.facts.take(note, notes[number:])

    def cut_power(self, child: Child, draw: random.Random) -> None:
        """
        The machine stops at some moment of what a process did, and starts again:
        the real directory is then what the disk had.
        """
        self.disk.begin_process()
        count = draw.randrange(len(child.effects))
        notes = [one.note for one in child.effects if one.kind is Kind.MARK]
        noted = 0
        for effect in child.effects[:count]:
            self.disk.apply(effect)
            if effect.kind is Kind.MARK:
                noted += 1
                self.facts.take(notes[noted - 1], notes[noted:])
        image = draw.choice(list(power_cuts(self.disk, draw, 3)))
        print(f"{image.title}, after effect {count}")
        image.build(self.folder)
        self.facts.lose_power()
        self.boot_id = str(uuid.uuid4())
        self.disk = Disk(self.folder)

    def look(
        self, child: Child, states: int = STATES, check: Check = check_store
    ) -> None:
        """
        Check crash states between the effects of a recorded process, and add its
        effects.

        Args:
            child: the process.
            states: about how many.
            check: what must hold of each.
        """
        print(f"seed {SEED}")
        draw = random.Random(SEED)
        effects = list(_in_pages(child.effects))
        points = [i for i, one in enumerate(effects) if one.kind not in _QUIET]
        kills = set(draw.sample(points, min(len(points), states // _KILLS)))
        cuts = set(draw.sample(points, min(len(points), states // _CUTS)))
        cuts.add(points[-1])
        notes = [one.note for one in effects if one.kind is Kind.MARK]
        self.disk.begin_process()
        seen: set[tuple[bytes, int]] = set()
        noted = 0
        for number, effect in enumerate(effects):
            self.disk.apply(effect)
            if effect.kind is Kind.MARK:
                noted += 1
                self.facts.take(notes[noted - 1], notes[noted:])
                continue
            images: list[Image] = []
            if number in kills:
                images.append(after_kill(self.disk))
            if number in cuts:
                images.extend(power_cuts(self.disk, draw, _EACH))
            for image in images:
                key = image.digest, noted
                if key not in seen:
                    seen.add(key)
                    self._check_image(image, check, f"effect {number}: {effect!r:.200}")
        print(f"{len(seen)} states of {len(points)} points")

    def _check_image(self, image: Image, check: Check, where: str) -> None:
        image.build(self.folder)
        try:
            with same_boot(self.boot_id) if not image.is_power_cut else another_boot():
                check(self.store, deepcopy(self.facts), image.is_power_cut)
        except BaseException:
            # The failed state can be built again for an inspection.
            kept = self.folder.with_name("failed")
            image.build(kept)
            print(f"{image.title}, {where}, built again as {kept}")
            raise


def _in_pages(effects: Iterable[Effect]) -> Iterator[Effect]:
    """
    Large writes to the log page by page: the kernel may stop after any.
    """
    logs: dict[int, bool] = {}
    for effect in effects:
        if effect.kind is Kind.OPEN:
            logs[effect.file] = effect.path.startswith("commitlog/")
        if effect.kind is not Kind.WRITE or not logs.get(effect.file):
            yield effect
            continue
        at, data = effect.a, effect.data
        while data:
            size = PAGE - at % PAGE
            yield effect._replace(a=at, data=data[:size])
            at, data = at + size, data[size:]


def assert_same(disk: Disk, root: Path) -> None:
    """
    The recorder missed nothing: the model's newest state is the real directory.
    """
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        copy = Path(folder, "copy")
        after_kill(disk).build(copy)
        assert _content(copy) == _content(root)


def _content(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in root.rglob("*")
        if path.name != "lock.mdb"  # LMDB stores into it through a mapping
    }
