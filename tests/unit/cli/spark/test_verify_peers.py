"""
The options of ``pystore spark verify --peers``, and what it tells, before Spark starts.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from lib.autorecovery.recoveries import damage
from lib.command_line import run
from lib.spark.local_rounds import LocalRounds, replicas_of

from pystore.autorecovery.pauses import PauseKind, PauseTarget, pause
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.cli.spark.verify_peers import marks_told
from pystore.clocks import wall_ms
from pystore.records.lmdb_store import LmdbStore

_AT = ("-a", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "name a STORE, or give --peers"),
        (("--mark", "/data/a"), "--mark and --force need --peers"),
        (("--peers", *_AT, "/data/a"), "name no STORE"),
        (("--peers",), "--peers needs -a HOST:PORT"),
        (("--peers", *_AT), "name the record store of the controllers"),
        (("--peers", *_AT, "--force"), "--force needs --mark"),
        (("--peers", *_AT, "--set", "b"), "--set b is not CLUSTER/SET"),
        (("--peers", *_AT, "--direct-share", "2"), "2"),
        (("--peers", *_AT, "--tls-key", "k"), "--tls-certificate needs"),
    ],
)
def test_options_that_do_not_fit_each_other_are_refused(
    words: tuple[str, ...], text: str
) -> None:
    """
    As wrong usage, before anything is asked or read.
    """
    found = run("spark", "verify", *words)
    assert 2 == found.exit_code, found.output
    assert text in found.stderr


def test_a_record_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    """
    Nothing is made in its place.
    """
    found = run("spark", "verify", "--peers", *_AT, "--records", tmp_path / "none")
    assert 2 <= found.exit_code
    assert "there is no record store" in found.stderr
    assert not (tmp_path / "none").exists()


def test_a_paused_verification_asks_no_controller_and_starts_no_spark(
    tmp_path: Path,
) -> None:
    """
    AR-R24: each of its rounds says why, and the exit code that nothing was checked.
    """
    records = tmp_path / "records"
    with closing(LmdbStore(records)) as store:
        now_ms = wall_ms()
        target = PauseTarget(PauseKind.VERIFICATION)
        pause(store, target, now_ms + 3_600_000, by="ops@c1", now_ms=now_ms)
    words = ("--records", records, "--rounds", "2", "--pause", "0")
    found = run("spark", "verify", "--peers", *_AT, *words)
    assert (3, "") == (found.exit_code, found.stdout)
    lines = found.stderr.splitlines()
    assert 2 == len(lines)
    for line in lines:
        assert line.startswith("verification is paused by ops@c1, for 3")
        assert line.endswith(" s from now: nothing was read")


def test_nothing_is_read_to_be_marked_while_autorecovery_is_disabled(
    tmp_path: Path,
) -> None:
    """
    It is said so.
    """
    records = tmp_path / "records"
    with closing(LmdbStore(records)) as store:
        UnderReplicationQueue(store, wall_ms).disable("ops@c1")
    found = run("spark", "verify", "--peers", *_AT, "--records", records, "--mark")
    assert (3, "") == (found.exit_code, found.stdout)
    assert "AutoRecovery is disabled" in found.stderr


def test_what_became_of_the_damage_is_told(tmp_path: Path) -> None:
    """
    Marked, or what would be; and why not.
    """
    replicas = replicas_of(tmp_path)
    damage(replicas.replicas[2].root, "payload bit")
    where = "cluster/set/2 segment 16384"
    rounds = LocalRounds(replicas, is_marking=False)
    rounds.round()
    row, lines = marks_told(rounds.job)
    assert [
        f"  would be marked: {where}: CORRUPT, blocks [0]",
        "  nothing was marked: give --mark",
    ] == lines
    assert ([f"{where}: CORRUPT, blocks [0]"], {}) == (
        row["confirmed"],
        row["outcomes"],
    )
    rounds = LocalRounds(replicas)
    rounds.round()
    row, lines = marks_told(rounds.job)
    assert [f"  marked: {where}: CORRUPT, blocks [0]", "  marks: 1 new"] == lines
    assert ({"new": 1}, True) == (row["outcomes"], row["isMarking"])
    rounds.after = replicas.replicas[2].restart
    rounds.round()
    _, lines = marks_told(rounds.job)
    why = "its process was started again since the plan"
    assert [f"  not marked: {where}: {why}"] == lines
