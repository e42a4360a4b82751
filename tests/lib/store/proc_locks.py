"""
The locks that the system has on files, from ``/proc/locks``.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["locks_below", "locks_of"]


def _locks() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        _, rest = line.split(":", 1)
        if "->" in rest:
            # A waiter, which holds nothing.
            continue
        kind, _, access, _, place, first, last = rest.split()
        inode = int(place.rsplit(":", 1)[1])
        found.setdefault(inode, []).append(f"{kind} {access} {first} {last}")
    return found


def locks_of(path: Path) -> list[str]:
    """
    The locks on a file, of every process: kind, access, first and last byte.
    """
    return sorted(_locks().get(path.stat().st_ino, []))


def locks_below(root: Path) -> dict[str, list[str]]:
    """
    The locks on each file below a directory, by its path from there.
    """
    locks = _locks()
    return {
        str(path.relative_to(root)): sorted(locks[path.stat().st_ino])
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.stat().st_ino in locks
    }
