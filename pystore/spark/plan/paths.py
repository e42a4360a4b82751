"""
Finds the stores that a path names: a root, a glob over roots, a ``file:`` URL.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pystore.errors import InvalidError, NotAStoreError
from pystore.fs.layout import COMMIT_LOG, is_store, require_store

__all__ = ["find_roots", "find_stores", "is_named", "store_around"]


def find_stores(paths: Iterable[str]) -> list[Path]:
    """
    Returns the absolute roots of the stores, each once, in the order of the paths.

    The matches of a glob are sorted by name; those that are no store are ignored. A
    path without a pattern must be a store.

    Raises:
        InvalidError: a URL does not name a local file.
        NotAStoreError: a path is no store, or a glob matches no store.
    """
    found: dict[Path, None] = {}
    for path in paths:
        local = _local(path)
        if not has_magic(local):
            found[_require(Path(local))] = None
            continue
        roots = [Path(name) for name in sorted(glob(local)) if is_store(Path(name))]
        if not roots:
            raise NotAStoreError(
                f"{path}: no store matches: a store is a directory with {COMMIT_LOG}/",
                path=path,
            )
        found.update(dict.fromkeys(roots))
    return list(found)


def find_roots(paths: Iterable[str]) -> list[Path]:
    """
    Returns the roots as `find_stores`, and the paths without a pattern that are no
    store, if another path is one: the caller says so of each.

    Raises:
        InvalidError: a URL does not name a local file.
        NotAStoreError: no path is a store.
    """
    found: dict[Path, None] = {}
    for path in paths:
        local = _local(path)
        names = sorted(glob(local)) if has_magic(local) else [local]
        for root in map(Path, names):
            if not has_magic(local) or _is_store(root):
                found[root] = None
    if not any(map(_is_store, found)):
        find_stores(paths)  # raises the error of the first path
    return list(found)


def _is_store(root: Path) -> bool:
    try:
        os.stat(root / COMMIT_LOG)
    except (FileNotFoundError, NotADirectoryError):
        # What is not there is none.
        return is_store(root)
    except OSError:
        # No answer: it may be one.
        return True
    return is_store(root)


def is_named(root: str, paths: Iterable[str]) -> bool:
    """
    Whether one of the paths or patterns names a root, there or not.
    """
    parts = root.split(os.sep)
    for path in paths:
        names = _local(path).rstrip(os.sep).split(os.sep)
        pairs = zip(parts, names, strict=False)
        if len(parts) == len(names) and all(fnmatchcase(*pair) for pair in pairs):
            return True
    return False


def store_around(folder: Path) -> Path | None:
    """
    Returns the root of the store that a directory is in, or is; ``None``: no store.
    """
    return next(filter(is_store, (folder, *folder.parents)), None)


def _local(path: str) -> str:
    parts = urlsplit(path)
    if "://" not in path and parts.scheme != "file":
        return os.path.abspath(path)  # workers have another current directory
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise InvalidError(
            f"{path}: only local paths and file: URLs are supported: mount the file "
            "system on every host under the same path"
        )
    return unquote(parts.path)


def _require(root: Path) -> Path:
    require_store(root)
    return root
