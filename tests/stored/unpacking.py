"""
The archives of this directory: how they were packed, and how they are unpacked.

Some stored files name directories by their absolute paths: the checkpoint of a stream,
the commits of an export, the plan of a compaction. An archive has `FOLDER` in their
place, and unpacking puts the new directory there.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

__all__ = ["FOLDER", "HERE", "pack", "unpack"]

HERE = Path(__file__).parent
"""Where the stored files are."""

FOLDER = "@FOLDER@"
"""What stands for the directory that an archive was, or is, unpacked in."""


def pack(folder: Path, name: str) -> None:
    """
    Writes ``folder/name`` into an archive of this directory.

    Args:
        folder: whose path is replaced by `FOLDER`, in files of text.
        name: of the directory in it, and of the archive.

    Raises:
        UnicodeDecodeError: a file that is no text has the path, too.
    """
    path = str(folder).encode()
    with tarfile.open(HERE / f"{name}.tar.gz", "w:gz") as tar:
        for one in sorted((folder / name).rglob("*")):
            info = tar.gettarinfo(str(one), one.relative_to(folder).as_posix())
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            if not info.isreg():
                tar.addfile(info)
            elif not _sums_a_path(one, path):
                content = one.read_bytes()
                if path in content:
                    content.decode()
                    content = content.replace(path, FOLDER.encode())
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def _sums_a_path(file: Path, path: bytes) -> bool:
    """
    Whether this is Hadoop's checksum of a file in which the path is replaced. Where
    there is no checksum Hadoop reads the file unchecked.
    """
    if not (file.name.startswith(".") and file.suffix == ".crc"):
        return False
    summed = file.with_name(file.stem[1:])
    return summed.is_file() and path in summed.read_bytes()


def unpack(name: str, into: Path) -> Path:
    """
    Unpacks an archive of this directory.

    Args:
        name: of the archive, and of the directory that comes out of it.
        into: where; absolute.

    Returns:
        The directory.
    """
    with tarfile.open(HERE / f"{name}.tar.gz") as tar:
        tar.extractall(into, filter="data")
    for path in sorted((into / name).rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if FOLDER.encode() in content:
                path.write_bytes(content.replace(FOLDER.encode(), str(into).encode()))
    for plan in sorted((into / name).glob("compacting/*/plan.json")):
        # The directory of unfinished work has the hash of its plan for its name.
        digest = hashlib.sha256(plan.read_bytes()).hexdigest()
        plan.parent.rename(plan.parents[1] / digest[:16])
    return into / name
