"""
``pystore recovery list``, ``show``, ``dead``, ``retry``, ``first``, ``forget``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.autorecovery.marks import GIB
from lib.autorecovery.statuses import DEAD, RESTING, TAKEN, WAITING
from lib.command_line import run, run_json
from lib.remoting.record_stores import put

from pystore.autorecovery.mark import Priority
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.records.lmdb_store import LmdbStore


def told(records: Path, *words: str) -> list[str]:
    """
    What a command prints.
    """
    result = run("recovery", *words, "--records", records)
    assert 0 == result.exit_code, result.output
    lines: list[str] = result.stdout.splitlines()
    return lines


def listed(records: Path, *words: str) -> list[str]:
    """
    The segments that `list` has.
    """
    found = run_json("recovery", "list", "--records", records, *words)
    return [one["segment"] for one in found["segments"]]


def test_the_list_has_the_most_urgent_first_with_worker_and_next_try(
    records: Path, queue: UnderReplicationQueue
) -> None:
    """
    What an operator put in front comes before all.
    """
    assert queue.first(WAITING)
    lines = told(records, "list")
    assert "segment" == lines[0].split()[0]
    assert [WAITING.text, TAKEN.text, RESTING.text] == sorted(
        (line.split()[0] for line in lines[2:5]), key=lambda one: one != WAITING.text
    )
    (taken,) = (line for line in lines if TAKEN.text in line)
    assert taken.endswith("host-1:7/0")
    (resting,) = (line for line in lines if RESTING.text in line)
    assert "2 LOST" in resting
    assert " in " in resting
    assert ["", "3 segments"] == lines[-2:]


def test_the_list_is_chosen_by_missing_copies_and_set(records: Path) -> None:
    """
    BK-A51.
    """
    everything = {TAKEN.text, RESTING.text, WAITING.text}
    assert everything == set(listed(records))
    assert everything == set(listed(records, "--missing", "2"))
    assert [] == listed(records, "--missing", "1")
    assert [] == listed(records, "--not-missing", "2")
    assert everything == set(listed(records, "--not-missing", "1"))
    assert everything == set(listed(records, "--set", "cluster/set"))
    assert [] == listed(records, "--set", "cluster/se")
    result = run("recovery", "list", "--records", records, "--set", "set")
    assert 2 == result.exit_code


def test_an_empty_list_is_no_error(empty: Path) -> None:
    """
    AR-R16.
    """
    for name in ("list", "dead", "listunderreplicated"):
        assert ["0 segments"] == told(empty, name)
        found = run_json("recovery", name, "--records", empty)
        assert {"schemaVersion": 1, "segments": [], "damaged": []} == found


def test_a_row_has_all_that_the_mark_has(records: Path) -> None:
    """
    Under stable names.
    """
    found = run_json("recovery", "list", "--records", records)
    (row,) = (one for one in found["segments"] if one["segment"] == TAKEN.text)
    at_ms = row.pop("firstMillis")
    assert at_ms > 0
    assert {
        "segment": TAKEN.text,
        "clusterName": "cluster",
        "brokerName": "set",
        "startOffset": 2 * GIB,
        "priority": int(Priority.FEWER_THAN_WANTED),
        "bytes": GIB,
        "missing": [
            {
                "brokerId": 2,
                "reason": "LOST",
                "detail": "dead, says controller 1",
                "sinceMillis": 1000,
                "blocks": [],
            }
        ],
        "lastMillis": at_ms,
        "tries": 0,
        "notBeforeMillis": 0,
        "frontMillis": 0,
        "by": "auditor",
        "worker": "host-1:7/0",
    } == row


def test_a_record_that_cannot_be_read_hides_no_other(records: Path) -> None:
    """
    The exit code says that there is one; `forget` removes it.
    """
    bad = SegmentKey("cluster", "set", 9 * GIB)
    store = LmdbStore(records)
    put(store, bad.mark, b"?")
    store.close()
    for name in ("list", "dead"):
        result = run("recovery", name, "--records", records)
        assert 1 == result.exit_code
        assert bad.mark in result.stderr
    found = run_json("recovery", "list", "--records", records, exit_code=1)
    assert (3, 1) == (len(found["segments"]), len(found["damaged"]))
    told(records, "forget", bad.text)
    assert 3 == len(listed(records))


def test_a_segment_is_shown_with_its_reasons_and_its_worker(records: Path) -> None:
    """
    The offset needs no leading zeros.
    """
    lines = told(records, "show", f"cluster/set/{2 * GIB}")
    pairs = dict(line.split("  ", 1) for line in lines)
    assert TAKEN.text == pairs["segment"].strip()
    assert "2, fewer copies than wanted" == pairs["priority"].strip()
    assert "broker 2: LOST; for " in pairs["missing"]
    assert pairs["missing"].endswith("; dead, says controller 1")
    assert "host-1:7/0" == pairs["being repaired by"].strip()
    assert "at once" == pairs["next try"].strip()
    resting = told(records, "show", RESTING.text)
    assert [True] == [" in " in one for one in resting if one.startswith("next try")]


def test_a_dead_segment_is_shown_with_its_evidence(records: Path) -> None:
    """
    One line for each replica.
    """
    evidence = ["  broker 1: blocks 3, 7 are bad", "  broker 2: it is dead"]
    for lines in (told(records, "show", DEAD.text), told(records, "dead")[:-1]):
        assert lines[0].startswith(f"{DEAD.text}: dead for ")
        assert lines[0].endswith("after 0 failed tries")
        assert evidence == lines[1:]
    assert "1 segments" == told(records, "dead")[-1]
    found = run_json("recovery", "show", DEAD.text, "--records", records)
    assert (None, "host-1:7/0", [3, 7]) == (
        found["mark"],
        found["dead"]["buriedBy"],
        found["dead"]["missing"][0]["blocks"],
    )


def test_a_segment_of_which_nothing_is_known_is_whole(records: Path) -> None:
    """
    `show` says so; what would change it is refused.
    """
    text = "cluster/set/00000000000000000000"
    assert [f"{text}: neither in the queue nor dead"] == told(records, "show", text)
    found = run_json("recovery", "show", text, "--records", records)
    assert (None, None) == (found["mark"], found["dead"])
    for name in ("retry", "first", "forget"):
        result = run("recovery", name, text, "--records", records)
        assert 3 == result.exit_code
        assert 1 == len(result.stderr.splitlines())
        assert text in result.stderr


def test_a_dead_segment_is_tried_again(
    records: Path, queue: UnderReplicationQueue
) -> None:
    """
    A dry run shows it.
    """
    lines = told(records, "retry", DEAD.text, "--dry-run")
    text = f"{DEAD.text}: it is no longer dead, and is tried at once"
    assert [f"would be done: {text}", "nothing was changed"] == lines
    assert [DEAD] == list(queue.dead())
    assert [text] == told(records, "retry", DEAD.text)
    assert {} == queue.dead()
    assert queue.get(DEAD) is not None


def test_a_resting_segment_is_tried_at_once(
    records: Path, queue: UnderReplicationQueue
) -> None:
    """
    It stays where it is in the order.
    """
    assert [f"{RESTING.text}: it is tried at once"] == told(
        records, "retry", RESTING.text
    )
    mark = queue.get(RESTING)
    assert mark is not None
    assert (0, 0, 0) == (mark.tries, mark.not_before_ms, mark.front_ms)


def test_a_segment_is_put_in_front(records: Path, queue: UnderReplicationQueue) -> None:
    """
    Only without --dry-run.
    """
    for words, is_front in ((("--dry-run",), False), ((), True)):
        found = run_json(
            "recovery", "first", WAITING.text, "--records", records, *words
        )
        mark = queue.get(WAITING)
        assert mark is not None
        assert (is_front, not is_front) == (mark.front_ms > 0, found["isDryRun"])


def test_a_dead_segment_is_forgotten(
    records: Path, queue: UnderReplicationQueue
) -> None:
    """
    Only without --dry-run.
    """
    found = run_json("recovery", "forget", DEAD.text, "--records", records, "--dry-run")
    assert ([DEAD.dead], True) == (found["removed"], found["isDryRun"])
    assert [DEAD] == list(queue.dead())
    assert [f"{DEAD.text}: {DEAD.dead} is removed"] == told(
        records, "forget", DEAD.text
    )
    assert {} == queue.dead()


@pytest.mark.parametrize("text", ["", "x", "a/b", "a/b/c", "a/b/-1", f"a/b/{10**20}"])
def test_what_is_no_segment_is_wrong_usage(text: str, records: Path) -> None:
    """
    Before anything is read.
    """
    result = run("recovery", "show", text, "--records", records)
    assert 2 == result.exit_code
    assert "is not CLUSTER/SET/OFFSET" in result.stderr
