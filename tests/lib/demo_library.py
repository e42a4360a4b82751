"""
A small library for tests of the demo: a few files of several kinds.
"""

from __future__ import annotations

from pathlib import Path


def make_library(root: Path, files: int = 12, lines: int = 200) -> Path:
    """
    Writes text files with blank lines, and some files that are no text.
    """
    for number in range(files):
        suffix = (".py", ".txt", "")[number % 3]
        path = root / f"folder{number % 2}" / f"file{number}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        some = [f"line {n} of {number}" * (n % 4) for n in range(lines)]
        path.write_text("\n".join(some))
    (root / "binary.dat").write_bytes(b"text\0and not")
    (root / "empty.txt").write_bytes(b"")
    for skipped in ("__pycache__", "site-packages"):
        (root / skipped).mkdir()
        (root / skipped / "left_out.py").write_text("x\n")
    return root
