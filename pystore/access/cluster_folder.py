"""
Writes the files of a new cluster, each with the permissions that it needs.

Source: docs/security.md, *A new cluster*.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_cluster"]

_OWNER_ONLY = 0o600
_PUBLIC = 0o644
_PUBLIC_NAMES = frozenset({"ca.pem", "certificate.pem", "tls.properties"})


def write_cluster(folder: Path, files: Mapping[str, bytes]) -> None:
    """
    Writes files into a new directory.

    Args:
        folder: that must not exist.
        files: path below it -> content, as `pystore.access.cluster_files` makes them.

    Raises:
        FileExistsError: it exists.
        OSError: it cannot be written.
    """
    folder.mkdir(mode=0o700)
    for place, content in files.items():
        path = folder / place
        path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        mode = _PUBLIC if path.name in _PUBLIC_NAMES else _OWNER_ONLY
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
            file.write(content)
