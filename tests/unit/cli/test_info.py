"""
``pystore info`` shows a store without changing it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lib.command_line import (
    SEGMENT,
    make_store,
    overwrite,
    run,
    run_json,
    run_process,
    segment_file,
)
from lib.oracle.golden_data import GoldenStore
from lib.store.forked import as_user

from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.store.commit_log import CommitLog


def test_a_golden_store_shows_javas_offsets(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    No file is created in a store that pystore never opened.
    """
    before = sorted(golden_root.rglob("*"))
    found = run_json("info", golden_root)

    expected = golden_store.expected
    assert ("RocketMQ", expected["minPhyOffset"], expected["maxPhyOffset"]) == (
        found["writer"],
        found["minOffset"],
        found["endOffset"],
    )
    assert golden_store.segment_size == found["segmentSize"]
    is_crashed = expected["abortFilePresent"]
    assert ("crashed" if is_crashed else "closed") == found["state"]
    assert before == sorted(golden_root.rglob("*"))
    text = run("info", golden_root).stdout
    assert f"{found['minOffset']} to {found['endOffset']}" in text
    assert is_crashed == ("crashed: the next opening recovers it" in text)


def test_a_store_of_ours_is_closed_open_or_crashed(tmp_path: Path) -> None:
    """
    The output has the process that writes.
    """
    root = make_store(tmp_path / "s")
    closed = run_json("info", root)
    with CommitLog(root):
        opened = json.loads(run_process("info", root, "--json").stdout)
        text = run_process("info", root).stdout.decode()
    code = "import sys, os; from pystore.store.commit_log import CommitLog; "
    code += "log = CommitLog(sys.argv[1]); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)
    crashed = run_json("info", root)

    assert ["closed", "open", "crashed"] == [
        found["state"] for found in (closed, opened, crashed)
    ]
    assert os.getpid() == opened["writerPid"]
    assert f"process {os.getpid()} writes" in text
    assert closed["sameBoot"] is crashed["sameBoot"] is True
    assert closed["endOffset"] == opened["endOffset"] == crashed["endOffset"]
    assert "the next opening recovers it" in run("info", root).stdout


def test_epochs_and_identity_are_shown(tmp_path: Path) -> None:
    """
    Those of the metastore, and those of RocketMQ's files.
    """
    root = make_store(tmp_path / "s")
    with CommitLog(root) as log:
        end = log.end_offset
        log.begin_epoch(3)
    (root / "brokerIdentity").write_bytes(BrokerIdentity("c", "b", 2).encode())
    found = run_json("info", root)
    text = run("info", root).stdout

    assert [[3, end]] == found["epochs"]
    assert {
        "clusterName": "c",
        "brokerName": "b",
        "brokerId": 2,
        "confirmed": True,
    } == found["identity"]
    assert "c/b broker 2" in text
    assert f"3 from {end}" in text


def test_a_change_by_another_program_is_shown(tmp_path: Path) -> None:
    """
    Each change has a line.
    """
    root = make_store(tmp_path / "s")
    (root / "abort").write_text("4321")
    found = run_json("info", root)

    assert "changed by another program" == found["state"]
    assert any("abort" in reason for reason in found["foreign"])
    assert "foreign" in run("info", root).stdout


def test_damage_that_prevents_an_opening_is_shown(tmp_path: Path) -> None:
    """
    The report has its offset.
    """
    root = tmp_path / "s"
    code = "import sys, os; from lib.command_line import make_store; "
    code += "from pystore.store.commit_log import CommitLog; "
    code += "from pystore.message.columns import *; "
    code += "log = CommitLog(sys.argv[1]); "
    code += "log.append_columns(gather_columns('t', [b'body'] * 9)); os._exit(0)"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(root)], check=True, env=env)
    overwrite(segment_file(root), 10, b"X")
    found = run_json("info", root)

    assert ("damaged", 0) == (found["state"], found["damageOffset"])


def test_an_ill_store_says_what_is_missing(tmp_path: Path) -> None:
    """
    The state, and one line for each segment; the other facts are there as well.
    """
    root = make_store(tmp_path / "s")
    whole = run_json("info", root)
    segment_file(root, SEGMENT).unlink()
    os.truncate(segment_file(root), 1000)
    facts = run_json("info", root)

    assert "ill" not in whole
    assert ("ill", whole["endOffset"]) == (facts["state"], facts["endOffset"])
    assert [(1000, SEGMENT), (SEGMENT, 2 * SEGMENT)] == [
        (one["offset"], one["end"]) for one in facts["ill"]
    ]
    assert str(segment_file(root)) == facts["ill"][0]["path"]
    text = run("info", root).stdout
    assert re.search(r"^state +ill$", text, re.MULTILINE)
    assert f"{SEGMENT} to {2 * SEGMENT}: {segment_file(root, SEGMENT)}: the" in text


def test_an_ill_store_of_rocketmq_says_what_is_missing(tmp_path: Path) -> None:
    """
    As a store of pystore.
    """
    root = make_store(tmp_path / "s")
    shutil.rmtree(root / "meta")
    segment_file(root, SEGMENT).unlink()
    facts = run_json("info", root)

    assert ("ill", 1) == (facts["state"], len(facts["ill"]))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")
def test_segments_that_may_not_be_read_are_unknown_and_no_empty_log(
    golden_root: Path,
) -> None:
    """
    RocketMQ's files may have mode 0600. The exit code is that of `verify`.
    """
    for path in [*golden_root.parents, *golden_root.rglob("*")]:
        if path.is_relative_to(golden_root.parents[3]):
            path.chmod(0o755 if path.is_dir() else 0o644)
    for path in (golden_root / "commitlog").iterdir():
        path.chmod(0)
    run("info", golden_root)  # imports what another user may not read

    def judge() -> list[str]:
        result = run("info", golden_root)
        return [str(result.exit_code), result.stdout]

    code, text = as_user(65534, judge)

    assert "3" == code
    assert re.search(r"^state +ill$", text, re.MULTILINE)
    assert "Permission denied" in text
