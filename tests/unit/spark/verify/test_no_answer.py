"""
Stores and files that give no answer: each is UNKNOWN, and hides no other store.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.spark.verify_job import SEGMENT, by_word, check, make_replicas
from lib.store.segment_files import segment

OTHER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """
    A folder that every user can enter.
    """
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def as_another_user(*roots: Path) -> list[tuple[str, str, bool, str]]:
    """
    Store, verdict, whether it is bad, and evidence of each row, for a user who owns no
    file of the stores.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(OTHER, OTHER, OTHER)
            os.setresuid(OTHER, OTHER, OTHER)
            rows: list[Any] = [
                (Path(one.store).name, one.verdict, one.is_bad, " ".join(one.evidence))
                for one in check(*roots, replicas="all")
            ]
            os.write(write_end, json.dumps(rows).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    assert 0 == os.waitpid(child, 0)[1]
    return [tuple(row) for row in json.loads(text)]


@needs_root
def test_another_user_reads_a_store_that_every_user_may_read(folder: Path) -> None:
    """
    Spark's user is not the broker's. No file is written, nor a lock taken.
    """
    roots = make_replicas(folder, 2, with_queues=True)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    rows = as_another_user(*roots)

    assert {"OK"} == {row[1] for row in rows}
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@needs_root
@pytest.mark.parametrize(
    "name",
    [
        "commitlog",
        "meta/live",
        "meta/lmdb/data.mdb",
        "meta/seals",
        "consumequeue/T1/0",
        "epochFileCheckpoint",
        "checkpoint",
    ],
)
def test_what_may_not_be_read_is_no_damage(folder: Path, name: str) -> None:
    """
    The store is UNKNOWN, or not affected; the other stores have their verdicts.
    """
    roots = make_replicas(folder, 2, with_queues=True)
    (roots[1] / "epochFileCheckpoint").write_text("no epochs")
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (roots[1] / name).chmod(0)

    rows = as_another_user(*roots)

    assert not [row for row in rows if row[2]]
    unknown = [row for row in rows if row[1] == "UNKNOWN"]
    assert {"b"} == {row[0] for row in unknown}
    assert all("Permission denied" in row[3] for row in unknown)
    assert {row[1] for row in rows if row[0] == "a"} <= {"OK", "UNSEALED", "ABSENT"}


@needs_root
def test_a_segment_that_may_not_be_read_is_unknown_alone(folder: Path) -> None:
    """
    Its neighbours are checked.
    """
    (root,) = make_replicas(folder, 1)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    segment(root, SEGMENT).chmod(0)

    rows = as_another_user(root)

    assert not [row for row in rows if row[2]]
    assert "UNKNOWN" in {row[1] for row in rows}


def test_a_link_loop_is_no_answer(tmp_path: Path) -> None:
    """
    The other replicas are checked.
    """
    roots = make_replicas(tmp_path)
    shutil.rmtree(roots[1] / "commitlog")
    (roots[1] / "commitlog").symlink_to("commitlog")
    meta = roots[2] / "meta"
    shutil.rmtree(meta)
    meta.symlink_to("meta")

    words = by_word(check(roots[0], roots[2], replicas="all"))

    assert ("c", -1) in words["UNKNOWN"]
    assert {"a"} == {name for name, _ in words["UNSEALED"]}


@pytest.mark.parametrize("name", ["00004503599627370496", "00000000000000655360"])
def test_a_file_far_behind_the_log_is_the_orphan(tmp_path: Path, name: str) -> None:
    """
    The healthy segments and the hole before it are not blamed.
    """
    (root,) = make_replicas(tmp_path, 1)
    shutil.copy(segment(root, SEGMENT), root / "commitlog" / name)

    verdicts = check(root)

    (bad,) = [one for one in verdicts if one.is_bad]
    assert ("ORPHAN", name) == (bad.verdict, bad.name)
    assert "no record of this offset begins here" in bad.evidence[0]
