"""
Crash states: directories as a killed process or a power cut can leave them.

A state is chosen from a `Disk`: which version each undecided unit has. Some
choices are made at every point of a trace (nothing of what is undecided, all of
it, all but one, only one), the others at random.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import xxhash
from crash.disk import PAGE, SECTOR, Disk, File, Folder, NameChange

__all__ = ["STORE", "Image", "after_kill", "power_cuts"]

STORE = "store"
"""The name of the store's directory below the recorded one."""

Unit = tuple[File, int] | NameChange
_OLDEST, _NEWEST = 0, -1
_ZEROS = bytes(PAGE)
_SIZE = -1  # the number that stands for a file's size among its pages


@dataclass(frozen=True, slots=True)
class Content:
    """A file of an image; two names of one file share it."""

    file: File
    size: int
    pages: dict[int, bytes]


Tree = dict[str, "Content | Tree"]


@dataclass(frozen=True, slots=True)
class Image:
    """
    A directory with a store in it, which is not there yet.

    Attributes:
        tree: its content.
        title: how it was chosen.
        is_power_cut: else a process was killed, and the machine went on.
    """

    tree: Tree
    title: str
    is_power_cut: bool

    @property
    def digest(self) -> bytes:
        """Equal for equal directories."""
        found = xxhash.xxh3_128(bytes([self.is_power_cut]))
        _digest(self.tree, found)
        return found.digest()

    def build(self, root: Path) -> None:
        """
        Make the directory, in place of what was there. The store keeps its inode,
        over a state without one, too: else each state would be taken for a copy.
        """
        aside = root.with_name(f"{root.name}.aside")
        if (root / STORE).exists() and not aside.exists():
            (root / STORE).rename(aside)
        if root.exists():
            shutil.rmtree(root)
        root.mkdir()
        if STORE in self.tree and aside.exists():
            for below in aside.iterdir():
                if below.is_dir():
                    shutil.rmtree(below)
                else:
                    below.unlink()
            aside.rename(root / STORE)
        _build(self.tree, root, {})


def _digest(tree: Tree, found: xxhash.xxh3_128) -> None:
    for name, node in sorted(tree.items()):
        if isinstance(node, dict):
            found.update(f"{name}/".encode())
            _digest(node, found)
            found.update(b"..")
            continue
        found.update(f"{name} {node.size}".encode())
        for number, page in sorted(node.pages.items()):
            found.update(str(number).encode())
            found.update(page)


def _build(tree: Tree, folder: Path, done: dict[int, Path]) -> None:
    for name, node in tree.items():
        path = folder / name
        if isinstance(node, dict):
            path.mkdir(exist_ok=True)
            _build(node, path, done)
        elif id(node.file) in done:
            os.link(done[id(node.file)], path)
        else:
            done[id(node.file)] = path
            _write(path, node)


def _write(path: Path, content: Content) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        os.truncate(descriptor, content.size)
        for number, page in content.pages.items():
            data = page[: max(0, content.size - number * PAGE)]
            os.pwrite(descriptor, data, number * PAGE)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _Choice:
    """
    Which version each unit has.

    Attributes:
        default: of units without an own one: 0 the oldest, -1 the newest.
        own: the index of a unit's version.
        torn: (older index, sectors): a page's first sectors are of the chosen
            version, the rest is of an older one.
    """

    default: int
    own: dict[tuple[int, int], int] = field(default_factory=dict)
    torn: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def choose(self, unit: Unit, index: int) -> None:
        """Give a unit its own choice."""
        self.own[_key(unit)] = index

    def content(self, file: File) -> Content:
        """A file as chosen."""
        pages = {}
        for number, page in file.pages.items():
            key = (id(file), number)
            data = page.seen[self.own.get(key, self.default)]
            if key in self.torn:
                older, sectors = self.torn[key]
                at = sectors * SECTOR
                data = data[:at] + page.seen[older][at:]
            if data != _ZEROS:
                pages[number] = data
        size = file.size.seen[self.own.get((id(file), _SIZE), self.default)]
        return Content(file, size, pages)

    def image(self, disk: Disk, title: str) -> Image:
        """The directory as chosen."""
        names: dict[int, dict[str, File | Folder]] = {}
        for change in disk.pending:
            if self.own.get((id(change), 0), self.default) != 0:
                for folder, name, node in change.entries:
                    own = names.setdefault(id(folder), dict(folder.stable))
                    if node is None:
                        own.pop(name, None)
                    else:
                        own[name] = node
        return Image(self._tree(disk.top, names), title, is_power_cut=True)

    def _tree(self, folder: Folder, names: dict[int, dict[str, File | Folder]]) -> Tree:
        return {
            name: self._tree(node, names)
            if isinstance(node, Folder)
            else self.content(node)
            for name, node in names.get(id(folder), folder.stable).items()
        }


def _key(unit: Unit) -> tuple[int, int]:
    return (id(unit), 0) if isinstance(unit, NameChange) else (id(unit[0]), unit[1])


def _units(disk: Disk) -> list[Unit]:
    found: list[Unit] = list(disk.pending)
    for file in disk.files():
        found += [(file, n) for n, page in file.pages.items() if len(page.seen) > 1]
        if len(file.size.seen) > 1:
            found.append((file, _SIZE))
    return found


def _versions(unit: Unit) -> int:
    if isinstance(unit, NameChange):
        return 2
    file, number = unit
    seen = file.size.seen if number == _SIZE else file.pages[number].seen
    return len(seen)


def power_cuts(disk: Disk, draw: random.Random, each: int) -> Iterator[Image]:
    """
    States after a power cut now: nothing of what is undecided, all of it, and of
    each other way of choosing at most ``each``.
    """
    units = _units(disk)
    yield _Choice(_OLDEST).image(disk, "nothing unsynced")
    if not units:
        return
    yield _Choice(_NEWEST).image(disk, "all unsynced")
    for default, word in ((_NEWEST, "all but one"), (_OLDEST, "only one")):
        for unit in draw.sample(units, min(each, len(units))):
            choice = _Choice(default)
            choice.choose(unit, _NEWEST - default)
            yield choice.image(disk, word)
    for _ in range(each):
        yield _random(units, draw).image(disk, "at random")


def _random(units: list[Unit], draw: random.Random) -> _Choice:
    choice = _Choice(_OLDEST)
    share = draw.random()
    for unit in units:
        count = _versions(unit)
        if draw.random() >= share:
            continue
        index = draw.randrange(1, count)
        choice.choose(unit, index)
        is_page = not isinstance(unit, NameChange) and unit[1] != _SIZE
        if is_page and draw.random() < 0.3:
            sectors = draw.randrange(1, PAGE // SECTOR)
            choice.torn[_key(unit)] = draw.randrange(index), sectors
    return choice


def after_kill(disk: Disk) -> Image:
    """
    The state after SIGKILL now: all effects, as every process sees them.
    """
    newest = _Choice(_NEWEST)

    def tree(folder: Folder) -> Tree:
        return {
            name: tree(node) if isinstance(node, Folder) else newest.content(node)
            for name, node in folder.now.items()
        }

    return Image(tree(disk.top), "killed", is_power_cut=False)
