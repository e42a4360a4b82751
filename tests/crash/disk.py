"""
A model of what a power cut can leave of the effects in a trace.

Whatever was synced is on the disk. Everything else may be there or not, in any
combination of these units: a page of 4 KiB of a file, as it was after any of
the writes to it, perhaps with only its first sectors new; a file's size; a name
in a directory. A sync of a file orders that file's pages and size and nothing
else, the sync of a directory the names in it. A page whose sync failed is clean
to the page cache, and no later sync writes it again, only a new write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from crash.recording import Effect, Kind

__all__ = ["PAGE", "SECTOR", "Disk", "File", "Folder", "NameChange", "Versions"]

PAGE = 4096
SECTOR = 512

T = TypeVar("T")

_PUNCH_HOLE = 0x02
_KEEP_SIZE = 0x01
_ZERO_RANGE = 0x10
_ZEROS = bytes(PAGE)


@dataclass(slots=True)
class Versions(Generic[T]):
    """
    What a unit may be after a power cut.

    Attributes:
        seen: contents, the oldest first; the last one is what readers see now.
        is_dirty: whether the next sync writes the last one.
    """

    seen: list[T]
    is_dirty: bool = False

    def put(self, content: T) -> None:
        """A write."""
        if self.seen[-1] != content:
            self.seen.append(content)
        self.is_dirty = True

    def sync(self, *, failed: bool) -> None:
        """A sync that reached the disk, or did not and forgot the page."""
        if self.is_dirty and not failed:
            del self.seen[:-1]
        self.is_dirty = False


@dataclass(slots=True, eq=False)
class File:
    """A file, with any names."""

    pages: dict[int, Versions[bytes]] = field(default_factory=dict)
    size: Versions[int] = field(default_factory=lambda: Versions([0]))

    def page(self, number: int) -> Versions[bytes]:
        """The versions of a page."""
        if number not in self.pages:
            self.pages[number] = Versions([_ZEROS])
        return self.pages[number]

    def write(self, at: int, data: bytes) -> None:
        """Write, and grow if needed."""
        done = 0
        while done < len(data):
            number, start = divmod(at + done, PAGE)
            piece = data[done : done + PAGE - start]
            page = self.page(number)
            old = page.seen[-1]
            page.put(old[:start] + piece + old[start + len(piece) :])
            done += len(piece)
        if at + len(data) > self.size.seen[-1]:
            self.size.put(at + len(data))

    def zero(self, at: int, size: int) -> None:
        """Make a range zero; the size stays."""
        for number in sorted(self.pages):
            start = max(at, number * PAGE)
            stop = min(at + size, (number + 1) * PAGE)
            if start < stop:
                old = self.pages[number].seen[-1]
                first, last = start - number * PAGE, stop - number * PAGE
                new = old[:first] + bytes(last - first) + old[last:]
                self.pages[number].put(new)

    def resize(self, size: int) -> None:
        """Truncate or grow."""
        old = self.size.seen[-1]
        if size < old:
            self.zero(size, old - size)
        self.size.put(size)

    def sync(self, *, failed: bool = False) -> None:
        """Content and size are on the disk, if it did not fail."""
        for page in self.pages.values():
            page.sync(failed=failed)
        self.size.sync(failed=failed)

    def sync_range(self, at: int, size: int) -> None:
        """What a write through a descriptor with O_DSYNC adds."""
        for number in range(at // PAGE, (at + size - 1) // PAGE + 1):
            self.page(number).sync(failed=False)
        self.size.sync(failed=False)


@dataclass(slots=True, eq=False)
class Folder:
    """
    A directory.

    Attributes:
        now: its names as processes see them.
        stable: its names on the disk.
    """

    now: dict[str, File | Folder] = field(default_factory=dict)
    stable: dict[str, File | Folder] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class NameChange:
    """
    A change of names that is not on the disk yet: the entries that it sets.

    A rename sets the new name first; the old one is removed only with it.
    """

    entries: list[tuple[Folder, str, File | Folder | None]]


class Disk:
    """
    The files below one root as effects change them.

    Args:
        root: a directory whose content is on the disk for sure.
    """

    def __init__(self, root: Path) -> None:
        self.top = _load(root)
        self.pending: list[NameChange] = []
        self._files: dict[int, tuple[File | Folder, int]] = {}
        self._maps: dict[int, File] = {}

    def begin_process(self) -> None:
        """Descriptors and mappings end with their process."""
        self._files.clear()
        self._maps.clear()

    # -- names -------------------------------------------------------------

    def find(self, path: str) -> File | Folder | None:
        """The file or folder at a path, as processes see it."""
        node: File | Folder | None = self.top
        for name in Path(path).parts:
            if not isinstance(node, Folder):
                return None
            node = node.now.get(name)
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        parent = self.find(str(Path(path).parent))
        assert isinstance(parent, Folder), path
        return parent, Path(path).name

    def _change(self, *changes: tuple[str, File | Folder | None]) -> None:
        entries = []
        for path, node in changes:
            folder, name = self._place(path)
            entries.append((folder, name, node))
            if node is None:
                folder.now.pop(name)
            else:
                folder.now[name] = node
        self.pending.append(NameChange(entries))

    def _sync_folder(self, folder: Folder) -> None:
        """Make its names stable, and those that a rename moved to another folder."""
        for change in self.pending:
            kept = []
            is_forced = False
            for entry in reversed(change.entries):
                if entry[0] is folder or is_forced:
                    is_forced = True
                    _settle(entry)
                else:
                    kept.append(entry)
            change.entries = kept[::-1]
        self.pending = [change for change in self.pending if change.entries]

    # -- effects -----------------------------------------------------------

    def apply(self, effect: Effect) -> None:
        """One effect more."""
        match effect.kind:
            case Kind.OPEN:
                self._open(effect)
            case Kind.CLOSE:
                self._files.pop(effect.file, None)
            case Kind.MKDIR:
                self._change((effect.path, Folder()))
            case Kind.REMOVE | Kind.RMDIR:
                self._change((effect.path, None))
            case Kind.RENAME | Kind.LINK:
                gone = [(effect.path, None)] if effect.kind is Kind.RENAME else []
                self._change((effect.other, self.find(effect.path)), *gone)
            case Kind.MAP:
                self._maps[effect.a] = self._file(effect)
            case Kind.STORE:
                self._maps[effect.a].write(0, effect.data)
            case Kind.MSYNC:
                self._maps[effect.a].sync()
            case Kind.SYNC:
                self._sync(effect)
            case Kind.WRITE | Kind.SIZE | Kind.ALLOCATE:
                self._change_content(effect)
            case Kind.MARK:
                pass

    def _open(self, effect: Effect) -> None:
        node = self.find(effect.path)
        if node is None:
            assert effect.a & os.O_CREAT, effect.path
            node = File()
            self._change((effect.path, node))
        self._files[effect.file] = node, effect.a
        if effect.a & os.O_TRUNC and isinstance(node, File):
            node.resize(0)

    def _file(self, effect: Effect) -> File:
        node = self._files[effect.file][0]
        assert isinstance(node, File)
        return node

    def _sync(self, effect: Effect) -> None:
        node = self._files[effect.file][0]
        if isinstance(node, File):
            node.sync(failed=effect.result < 0)
        elif effect.result == 0:
            self._sync_folder(node)

    def _change_content(self, effect: Effect) -> None:
        file = self._file(effect)
        if effect.kind is Kind.SIZE:
            file.resize(effect.a)
        elif effect.kind is Kind.WRITE:
            file.write(effect.a, effect.data)
            if self._files[effect.file][1] & os.O_DSYNC:
                file.sync_range(effect.a, len(effect.data))
        else:
            if effect.mode & (_PUNCH_HOLE | _ZERO_RANGE):
                file.zero(effect.a, effect.b)
            end = effect.a + effect.b
            if not effect.mode & _KEEP_SIZE and end > file.size.seen[-1]:
                file.size.put(end)

    # -- what is undecided -------------------------------------------------

    def files(self) -> Iterator[File]:
        """Every file that a crash may leave with a name, each once."""
        known: set[int] = set()
        waiting: list[File | Folder] = [self.top]
        for change in self.pending:
            waiting.extend(node for *_, node in change.entries if node is not None)
        while waiting:
            node = waiting.pop()
            if id(node) in known:
                continue
            known.add(id(node))
            if isinstance(node, File):
                yield node
            else:
                waiting += [*node.now.values(), *node.stable.values()]


def _settle(entry: tuple[Folder, str, File | Folder | None]) -> None:
    folder, name, node = entry
    if node is None:
        folder.stable.pop(name, None)
    else:
        folder.stable[name] = node


def _load(path: Path) -> Folder:
    folder = Folder()
    for below in sorted(path.iterdir()):
        node: File | Folder
        if below.is_dir():
            node = _load(below)
        else:
            node = File()
            data = below.read_bytes()
            for at in range(0, len(data), PAGE):
                piece = data[at : at + PAGE].ljust(PAGE, b"\0")
                if piece != _ZEROS:
                    node.pages[at // PAGE] = Versions([piece])
            node.size = Versions([len(data)])
        folder.now[below.name] = folder.stable[below.name] = node
    return folder
