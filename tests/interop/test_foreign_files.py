"""
RocketMQ ignores the files that pystore adds to a store.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from interop.jvm import StoreTool
from lib.oracle.golden_data import STORES, GoldenStore
from lib.store.stores import SEGMENT, message

from pystore.recovery.dry_run import inspect
from pystore.store.commit_log import CommitLog

MIXED = next(store for store in STORES if store.name == "mixed-clean")


def test_rocketmq_ignores_a_meta_directory(java: StoreTool, tmp_path: Path) -> None:
    """
    RocketMQ finds the same records with and without ``meta/``.
    """
    root = MIXED.extract(tmp_path)
    files = {f"meta/{name}": name.encode() for name in ("lmdb/data.mdb", "live")}
    files["meta/seals/00000000000000000000"] = b"seal"
    files["meta/tmp/12345"] = bytes(4096)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)

    report = java.open(root, MIXED.expected["config"]).report()

    assert MIXED.records == report["records"]
    assert MIXED.expected["consumeQueues"] == report["consumeQueues"]
    assert files == {name: (root / name).read_bytes() for name in files}


@pytest.mark.parametrize("distance", [1, 3], ids=["next", "behind a hole"])
def test_rocketmq_opens_segments_that_were_allocated(
    java: StoreTool, tmp_path: Path, distance: int
) -> None:
    """
    A later segment of allocated zeros does not change the end for either program.
    """
    root = MIXED.extract(tmp_path)
    log = root / "commitlog"
    for path in sorted(log.iterdir()):
        _allocate(path, MIXED.segment_size)
    last = max(int(path.name) for path in log.iterdir())
    _allocate(log / f"{last + distance * MIXED.segment_size:020}", MIXED.segment_size)
    plan = inspect(root).plan

    store = java.open(root, MIXED.expected["config"])

    assert MIXED.expected["maxPhyOffset"] == store.opened["maxPhyOffset"]
    assert store.opened["maxPhyOffset"] == plan.rocketmq_end == plan.end_offset
    assert MIXED.records == store.report()["records"]


def test_rocketmq_continues_after_a_hole_that_follows_a_blank_record(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    Its end is the start of the allocated segment; the end of pystore is the end of the
    last record.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        end = log.append(message(1)).end
        log.writer.log.roll()
    (root / "commitlog" / f"{SEGMENT:020}").unlink()
    shutil.rmtree(root / "meta")
    (root / "abort").write_text("4711")
    _allocate(root / "commitlog" / f"{4 * SEGMENT:020}", SEGMENT)
    plan = inspect(root).plan

    store = java.open(root, {"mappedFileSizeCommitLog": str(SEGMENT)})

    assert 4 * SEGMENT == store.opened["maxPhyOffset"] == plan.rocketmq_end
    assert (end, "A2") == (plan.end_offset, plan.rule)


def test_rocketmq_rebuilds_the_consume_queues_of_a_bare_log(
    java: StoreTool, golden_store: GoldenStore, golden_root: Path, tmp_path: Path
) -> None:
    """
    A log without queues is a store: every record gets its queue entry.
    """
    bare = tmp_path / "bare"
    bare.mkdir()
    (golden_root / "commitlog").rename(bare / "commitlog")

    report = java.open(bare, golden_store.expected["config"]).report()
    entries = sorted(
        entry[0]
        for queue in report["consumeQueues"].values()
        for entry in queue["entries"]
        if entry[1] != 2**31 - 1
    )

    assert golden_store.records == report["records"]
    assert entries == sorted(
        record["offset"] for record in golden_store.records if _has_entry(record)
    )


def _allocate(path: Path, size: int) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(handle, 0, size)
    finally:
        os.close(handle)


def _has_entry(record: dict[str, object]) -> bool:
    """
    Whether consumers get the record: it is neither prepared nor rolled back.
    """
    sys_flag = record["sysFlag"]
    assert isinstance(sys_flag, int)
    return sys_flag & 0xC in (0, 8)
