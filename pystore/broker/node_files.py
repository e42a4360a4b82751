"""
The nodes that were added to a host, and those that were removed, as files: a restart
brings the former back, and not the latter.

``NAME.conf`` has the settings of an added node, as a properties file. ``NAME.removed``
says that a node was removed, and names the store that is to be deleted with it. Of a
node that has both, the removal is the later one.

Source: docs/operations.md, *Hosts*.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from urllib.parse import quote, unquote

import javaproperties

from pystore.errors import InvalidError
from pystore.fs.atomic import (
    SYSTEM,
    Calls,
    remove_file,
    replace_file,
    storage_error,
    sweep,
    sync_directory,
)
from pystore.rocketmq.properties_file import read_properties_file

__all__ = ["NodeFiles", "name_as_file"]

_CONF, _REMOVED, _TEMPORARY = ".conf", ".removed", "tmp"
_NAME_BYTES_MAX = 200
_STORE = "store"


def name_as_file(name: str) -> str:
    """
    Returns the name of a node as that of a file: others than letters, digits and
    ``_.-~`` are escaped as in an address of the web.

    Raises:
        InvalidError: it is empty, hidden or too long.
    """
    found = quote(name, safe="")
    if not found or found.startswith(".") or len(found) > _NAME_BYTES_MAX:
        raise InvalidError(
            f"a node of a host has a name of 1 to {_NAME_BYTES_MAX} characters that "
            f"does not begin with a full stop: {name[:40]!r} has not"
        )
    return found


class NodeFiles:
    """
    The files of one host. One thread at a time.

    Args:
        folder: of the files; it is made when it is missing.
        calls: the system calls.
    """

    def __init__(self, folder: Path, calls: Calls = SYSTEM) -> None:
        self.folder = folder
        self._calls = calls

    def prepare(self, configured: AbstractSet[str]) -> None:
        """
        Makes the folder, removes the drafts of a killed process, and ends the removals
        that it had begun.

        Args:
            configured: the nodes of the configuration file.

        Raises:
            StorageError: the system refused.
        """
        temporary = self.folder / _TEMPORARY
        try:
            temporary.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            # Of another user, or a file has the name.
            raise storage_error("make", temporary, error) from error
        sync_directory(self.folder.parent, self._calls)
        sweep(temporary, self._calls)
        for name in self.removed():
            self.finish(name, is_configured=name in configured)

    def added(self) -> dict[str, dict[str, str] | str]:
        """
        Returns the settings of each added node, or why its file cannot be read.
        """
        removed = self.removed()
        found: dict[str, dict[str, str] | str] = {}
        for name in self._names(_CONF):
            if name in removed:
                continue
            path = self._path(name, _CONF)
            try:
                found[name] = read_properties_file(path)
            except (InvalidError, OSError) as error:
                # The other nodes of the host start.
                found[name] = str(error)
        return found

    def removed(self) -> frozenset[str]:
        """
        Returns the names of the nodes that were removed.
        """
        return frozenset(self._names(_REMOVED))

    def put(self, name: str, settings: Mapping[str, str]) -> None:
        """
        Keeps the settings of an added node. An earlier removal is over.

        Raises:
            StorageError: the system refused.
        """
        self._write(self._path(name, _CONF), settings)
        remove_file(self._path(name, _REMOVED), self._calls)

    def remove(self, name: str, store: Path | None) -> None:
        """
        Notes that a node is removed: it is not there after a restart. `finish` does the
        rest, once its store is closed.

        Args:
            name: of the node.
            store: to be deleted; ``None``: its files stay.

        Raises:
            StorageError: the system refused.
        """
        settings = {} if store is None else {_STORE: os.path.abspath(store)}
        self._write(self._path(name, _REMOVED), settings)

    def take_back(self, name: str) -> None:
        """
        Forgets a node that was added, and could not start.

        Raises:
            StorageError: the system refused.
        """
        remove_file(self._path(name, _CONF), self._calls)

    def finish(self, name: str, *, is_configured: bool) -> None:
        """
        Ends a removal: deletes the store, if it is to be deleted, and the settings.

        Args:
            name: of the node.
            is_configured: the configuration file has it, so the note of the removal
                stays.

        Raises:
            InvalidError: the note is damaged.
            StorageError: the system refused.
        """
        path = self._path(name, _REMOVED)
        try:
            store = read_properties_file(path).get(_STORE, "")
        except OSError as error:
            # Another user's.
            raise storage_error("read", path, error) from error
        if store:
            _delete(Path(store))
            # Once: another store may have its place later.
            self._write(path, {})
        remove_file(self._path(name, _CONF), self._calls)
        if not is_configured:
            remove_file(path, self._calls)

    def _names(self, suffix: str) -> list[str]:
        try:
            found = sorted(self.folder.glob(f"*{suffix}"))
        except OSError as error:
            # The disk failed.
            raise storage_error("read", self.folder, error) from error
        return [unquote(one.name.removesuffix(suffix)) for one in found]

    def _path(self, name: str, suffix: str) -> Path:
        return self.folder / f"{name_as_file(name)}{suffix}"

    def _write(self, path: Path, settings: Mapping[str, str]) -> None:
        text = javaproperties.dumps(dict(settings), timestamp=False)
        replace_file(path, text.encode(), self.folder / _TEMPORARY, self._calls)


def _delete(store: Path) -> None:
    try:
        shutil.rmtree(store)
    except FileNotFoundError:
        # A removal that was interrupted after it.
        return
    except OSError as error:
        # Some files of it are left.
        raise storage_error("delete", store, error) from error
