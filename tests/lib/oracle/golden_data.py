"""
Reads ``tests/golden``: what RocketMQ's own classes wrote, and what they said.

``tests/golden/README.md`` explains every key.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "golden"
_STORES = GOLDEN / "stores"


def read_lines(path: Path) -> list[Any]:
    """
    Returns the JSON values of *path*, one per line, gzipped or not.
    """
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return [json.loads(line) for line in text.splitlines()]


def read_json(path: Path) -> Any:
    """
    Returns the one JSON value of *path*.
    """
    return json.loads(path.read_bytes())


@dataclass(frozen=True)
class GoldenStore:
    """
    One store as RocketMQ left it, with what RocketMQ then made of it.
    """

    name: str

    def extract(self, folder: Path) -> Path:
        """
        Unpacks the store below *folder* and returns its root.
        """
        root = folder / self.name
        root.mkdir()
        with tarfile.open(_STORES / f"{self.name}.tar.gz") as archive:
            archive.extractall(root, filter="data")
        return root

    @cached_property
    def expected(self) -> dict[str, Any]:
        """
        What Java reported after it loaded and started on a copy.
        """
        value: dict[str, Any] = read_json(_STORES / f"{self.name}.expected.json")
        return value

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """
        Every record in offset order, as Java decoded it after load.
        """
        return read_lines(_STORES / f"{self.name}.records.jsonl.gz")

    @cached_property
    def variants(self) -> list[dict[str, Any]]:
        """
        Damage done to the store and what Java made of it; often empty.
        """
        path = _STORES / f"{self.name}.variants.jsonl.gz"
        return read_lines(path) if path.exists() else []

    @property
    def segment_size(self) -> int:
        """
        The configured size in bytes of a commit log segment.
        """
        return int(self.expected["config"]["mappedFileSizeCommitLog"])


STORES = tuple(
    GoldenStore(path.name.removesuffix(".tar.gz"))
    for path in sorted(_STORES.glob("*.tar.gz"))
)

VARIANTS = tuple((store, damage) for store in STORES for damage in store.variants)


def apply_patch(root: Path, patch: list[dict[str, Any]]) -> None:
    """
    Does the damage of one variant line to an extracted store.

    Args:
        root: what ``GoldenStore.extract`` returned.
        patch: the ``patch`` list of the line.
    """
    for step in patch:
        path = root / step["file"]
        match step["op"]:
            case "write":
                _write(path, step["at"], bytes.fromhex(step["hex"]))
            case "zero":
                _write(path, step["at"], bytes(step["length"]))
            case "truncate":
                with path.open("r+b") as file:
                    file.truncate(step["length"])
            case "delete" if path.is_dir():
                shutil.rmtree(path)
            case "delete":
                path.unlink()
            case "create":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes.fromhex(step.get("hex", "")))
            case other:
                raise ValueError(f"unknown damage {other!r} in a variant line")


def _write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
