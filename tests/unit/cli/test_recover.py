"""
``pystore recover`` shows its own end beside the end of RocketMQ.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import make_store, overwrite, run, run_json, segment_file
from lib.oracle.golden_data import VARIANTS, GoldenStore, apply_patch

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store

RULES = {"A2", "A3", "A6", "A8", "A10", "A19"}


def settings(store: GoldenStore) -> list[str]:
    """
    Returns the settings of the store that have an effect.
    """
    forced = store.expected["config"].get("forceVerifyPropCRC", "false")
    return ["--set", f"forceVerifyPropCRC={forced}"]


def dry_run(root: Path, store: GoldenStore) -> dict[str, Any]:
    """
    Returns the dry run of a store, also of a damaged one.
    """
    result = run("recover", root, "--dry-run", "--json", *settings(store))
    assert result.exit_code in {0, 1}, result.stderr
    return run_json(
        "recover", root, "--dry-run", *settings(store), exit_code=result.exit_code
    )


def check(found: dict[str, Any], java_end: int) -> None:
    """
    RocketMQ's end is the end that Java found; ours is the same, or lower by a rule.
    """
    assert java_end == found["rocketmqEndOffset"]
    assert found["endOffset"] <= java_end
    if found["endOffset"] < java_end:
        assert found["rule"] in RULES
        assert found["cutReason"]


def snapshot(root: Path) -> dict[Path, bytes]:
    """
    Returns every byte of a store, except the lock file of LMDB's readers.
    """
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if path.name != "lock.mdb"}


def test_a_golden_store_ends_where_java_found_its_end(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    A dry run changes nothing.
    """
    before = snapshot(golden_root)

    check(dry_run(golden_root, golden_store), golden_store.expected["maxPhyOffset"])
    assert before == snapshot(golden_root)


@pytest.mark.parametrize(
    ("store", "damage"),
    [pytest.param(s, d, id=f"{s.name}-{d['variant']}") for s, d in VARIANTS],
)
def test_every_damage_ends_where_java_ended_or_earlier(
    store: GoldenStore, damage: dict[str, Any], tmp_path: Path
) -> None:
    """
    Checked where Java loads the store.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])
    if damage["result"]["loadOk"]:
        check(dry_run(root, store), damage["result"]["maxPhyOffset"])


KILLED = """
import os, sys
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog
log = CommitLog(sys.argv[1], segment_size=65536, flush_interval_ms=0)
log.append_columns(gather_columns("topic", [b"body"] * 700))
os.kill(os.getpid(), 9)
"""


def crash(root: Path) -> int:
    """
    Leaves a store of a killed process with a torn tail; returns its end.
    """
    subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False)
    with CommitLog(root, mode="r") as log:
        end = log.end_offset
    overwrite(segment_file(root, end - end % 65536), end % 65536, b"torn")
    return end


def test_a_crashed_store_is_cut_and_closed(tmp_path: Path) -> None:
    """
    The dry run reports what the real run does.
    """
    root = tmp_path / "s"
    end = crash(root)
    before = snapshot(root)
    dry = run_json("recover", root, "--dry-run")
    assert before == snapshot(root)
    done = run_json("recover", root)

    assert (True, False) == (dry["dryRun"], done["dryRun"])
    for found in (dry, done):
        assert (end, end, 4) == (
            found["endOffset"],
            found["cutOffset"],
            found["cutBytes"],
        )
        assert found["rule"] in RULES
    assert run_json("recover", root)["clean"]


def test_the_text_has_the_same_facts(tmp_path: Path) -> None:
    """
    The text is for people.
    """
    root = tmp_path / "s"
    end = crash(root)
    text = run("recover", root, "--dry-run").stdout

    assert "(nothing was changed)" in text
    assert f"end offset      {end}\n" in text
    assert "cut             4 bytes: " in text
    assert "(the clean mark holds)" not in text
    run("recover", root)
    assert "(the clean mark holds)" in run("recover", root).stdout


def damaged(root: Path) -> int:
    """
    Leaves a crashed store with a bad record among promised ones; returns where.
    """
    subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False)
    with CommitLog(root, mode="r") as log:
        row = next(log.scan(65536))[30]
    at = int(row["offset"] + row["body_at"])
    overwrite(segment_file(root, 65536), at - 65536, b"X")
    return int(row["offset"])


def test_promised_bytes_are_not_cut_without_consent(tmp_path: Path) -> None:
    """
    The exit code is 1, and not a byte is changed, dry run or not.
    """
    root = tmp_path / "s"
    offset = damaged(root)
    before = snapshot(root)
    for options in (["--dry-run"], []):
        found = run_json("recover", root, *options, exit_code=1)

        assert (offset, offset, True) == (
            found["damageOffset"],
            found["endOffset"],
            found["dryRun"],
        )
        assert before == snapshot(root)
    text = run("recover", root).stdout
    assert f"damage          offset {offset}: " in text
    assert "--accept-loss" in text


def test_with_consent_what_is_removed_is_saved_and_listed(tmp_path: Path) -> None:
    """
    The whole records behind the damage are named.
    """
    root = tmp_path / "s"
    offset = damaged(root)
    with CommitLog(root, mode="r") as log:
        rows = [int(o) for rows in log.scan(65536) for o in rows["offset"]]
    found = run_json("recover", root, "--accept-loss")

    assert offset == found["endOffset"]
    assert [row for row in rows if row > offset] == found["lostRecords"]
    saved = Path(found["lostDirectory"])
    assert found["lostBytesSaved"] == sum(p.stat().st_size for p in saved.iterdir())
    with CommitLog(root) as log:
        assert offset == log.end_offset
    damaged(tmp_path / "t")
    lines = run("recover", tmp_path / "t", "--accept-loss").stdout.splitlines()
    (lost,) = [line for line in lines if line.startswith("whole records lost")]
    count = len(found["lostRecords"])
    assert f"{count}, at offsets {found['lostRecords'][0]}, " in lost
    assert f" and {count - 10} more " in lost


def test_rocketmqs_configuration_comes_from_a_file_or_the_command_line(
    tmp_path: Path,
) -> None:
    """
    The command line wins; a key without an effect is wrong usage.
    """
    root = make_store(tmp_path / "s", property_crc=False)
    config = tmp_path / "broker.conf"
    config.write_text("forceVerifyPropCRC=true\nbrokerName=x\n")
    plain = run_json("recover", root, "--dry-run")
    forced = run_json("recover", root, "--dry-run", "--config", str(config))
    both = run_json(
        *("recover", root, "--dry-run", "--config", str(config)),
        *("--set", "forceVerifyPropCRC=false"),
    )

    assert plain["endOffset"] == plain["rocketmqEndOffset"]
    assert forced["rocketmqEndOffset"] < forced["endOffset"] == plain["endOffset"]
    assert plain == both
    for bad in ("nothing=true", "forceVerifyPropCRC=perhaps"):
        assert 2 == run("recover", root, "--set", bad).exit_code
    assert 3 == run("recover", root, "--config", str(tmp_path / "no")).exit_code


def test_delayed_entries_are_built_with_the_levels_of_the_configuration(
    tmp_path: Path,
) -> None:
    """
    With the default levels a message of level 1 would be delivered days too early.
    """
    root, topic = tmp_path / "s", "SCHEDULE_TOPIC_XXXX"
    with CommitLog(root) as log:
        log.append(Message(topic, b"later", properties={"DELAY": "1"}))
    folder = root / "consumequeue" / topic / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(bytes(6000))
    (root / "abort").write_text("4711")

    run_json("recover", root, "--set", "messageDelayLevel=2d 1s")

    with Store(root) as store:
        queue = store.queues.get(topic, 0)
        assert queue is not None
        due_ms = queue.read(0).tags_code - store.read(topic, 0, 0).store_ms
    assert 2 * 24 * 3_600_000 == due_ms


def test_the_configuration_of_another_store_is_refused(tmp_path: Path) -> None:
    """
    With the setting; the store is not changed.
    """
    root = make_store(tmp_path / "s")
    config = tmp_path / "broker.conf"
    config.write_text("mappedFileSizeCommitLog=1073741824\n")
    result = run("recover", root, "--config", str(config))

    assert 2 == result.exit_code
    assert "mappedFileSizeCommitLog=1073741824" in result.stderr


def test_a_dry_run_has_the_exit_code_of_verify(tmp_path: Path) -> None:
    """
    Also for damage in the middle of a log that was closed, which an opening does not
    look for.
    """
    root = make_store(tmp_path / "s")
    assert 0 == run("recover", root, "--dry-run").exit_code
    overwrite(segment_file(root), 3000, b"????")
    result = run("recover", root, "--dry-run")

    assert 1 == run("verify", root).exit_code == result.exit_code
    assert "pystore doctor" in result.stdout


@pytest.mark.parametrize(
    "name", ["commitlog/00000000000000065536", "meta/lmdb/data.mdb", "meta/live"]
)
def test_a_dry_run_of_a_store_that_no_opening_takes_has_the_exit_code_of_verify(
    tmp_path: Path, name: str
) -> None:
    """
    The reason is printed, and nothing is changed. Without ``--dry-run`` it is an error.
    """
    root = make_store(tmp_path / "s")
    with (root / name).open("r+b") as file:
        file.truncate(1000)
    before = snapshot(root)
    result = run("recover", root, "--dry-run")
    found = run_json("recover", root, "--dry-run", exit_code=1)

    assert 1 == run("verify", root).exit_code == result.exit_code
    assert name in "".join(result.stdout.split())
    assert name in found["damageReason"]
    assert "damaged" == found["verdict"]
    assert 3 == run("recover", root).exit_code
    assert before == snapshot(root)


def test_removed_bytes_go_where_the_operator_says(tmp_path: Path) -> None:
    """
    The place is made, and named in the report.
    """
    root = make_store(tmp_path / "s")
    overwrite(segment_file(root, 65536), 100, b"\xff" * 400)
    (root / "abort").touch()
    place = tmp_path / "saved" / "here"
    result = run("recover", root, "--accept-loss", "--save-to", place)

    assert 0 == result.exit_code, result.output
    (saved,) = place.iterdir()
    assert str(saved) in result.stdout
    assert list(saved.iterdir())
    assert not list(tmp_path.glob("s.lost-*"))


def test_a_relative_store_is_saved_beside_it_and_not_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    ``.`` has no name, and its parent is not ``.``.
    """
    root = tmp_path / "s"
    offset = damaged(root)
    monkeypatch.chdir(root)
    found = run_json("recover", ".", "--accept-loss")

    assert str(tmp_path / f"s.lost-{offset:020d}") == found["lostDirectory"]
    assert [] == list(root.glob("*lost*"))
    assert {"s", f"s.lost-{offset:020d}"} == {path.name for path in tmp_path.iterdir()}
