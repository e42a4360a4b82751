"""
The space that a run of an export takes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from lib.spark.exports import Growing, export_here, visible

from pystore.errors import FullError
from pystore.message.message import Message
from pystore.spark.export import space
from pystore.store.commit_log import CommitLog

SEGMENT = 1 << 16


@pytest.mark.parametrize(("is_random", "most"), [(True, 1.3), (False, 0.2)])
def test_the_space_is_computed_from_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_random: bool, most: float
) -> None:
    """
    Bodies that compress take less. What the error asks for is enough.
    """
    root, into = tmp_path / "store", tmp_path / "out"
    with CommitLog(root, segment_size=SEGMENT) as log:
        for _ in range(400):
            body = os.urandom(2000) if is_random else bytes(2000)
            log.append(Message("T", body))
        size = log.end_offset
    monkeypatch.setattr(space, "_SAMPLE_BYTES", SEGMENT)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        with pytest.raises(
            FullError, match=r"needs [\d.]+ kB, 1.00 kB are free"
        ) as one:
            export_here(root, into, bodies=True)
    assert [] == visible(into)
    needed = 1000 * float(str(one.value).partition("needs ")[2].partition(" kB")[0])

    commit = export_here(root, into, bodies=True)

    assert commit
    assert 400 == commit.records
    found = sum(file.size for file in commit.files)
    assert found / 1.5 < needed < most * size


def test_a_run_of_little_log_writes_no_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It needs as much space as its log.
    """
    store, into = Growing.new(tmp_path / "store", 100), tmp_path / "out"
    usage = shutil.disk_usage(tmp_path)
    for free in (10_000, 1 << 20):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda _, free=free: usage._replace(free=free)
        )
        if free == 10_000:
            with pytest.raises(FullError, match="another disk"):
                export_here(store.root, into)
    commit = export_here(store.root, into)
    assert commit
    assert 100 == commit.records
