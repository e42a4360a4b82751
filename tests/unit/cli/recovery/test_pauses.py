"""
``pystore recovery pause``, ``resume``, ``maintenance``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.autorecovery.marks import segment
from lib.command_line import run, run_json

from pystore.autorecovery.maintenance import MaintenanceTarget, read_maintenance
from pystore.autorecovery.pauses import PauseKind, PauseTarget, read_pauses
from pystore.autorecovery.segment_key import page_key
from pystore.autorecovery.window import decode_page
from pystore.clocks import wall_ms
from pystore.records.lmdb_store import LmdbStore

HOUR = 3_600_000


@pytest.fixture
def store(records: Path) -> Iterator[LmdbStore]:
    """
    The record store as another process sees it.
    """
    opened = LmdbStore(records)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (("repair",), PauseTarget(PauseKind.REPAIR)),
        (("verification",), PauseTarget(PauseKind.VERIFICATION)),
        (("set", "c/s"), PauseTarget(PauseKind.SET, "c", "s")),
        (("host", "10.0.0.1"), PauseTarget(PauseKind.HOST, name="10.0.0.1")),
    ],
)
def test_a_pause_begins_with_its_end_and_is_resumed(
    words: tuple[str, ...], target: PauseTarget, records: Path, store: LmdbStore
) -> None:
    """
    A dry run changes nothing; the record says who.
    """
    begun_ms = wall_ms()
    where = (*words, "--records", str(records))
    pause = ("recovery", "pause", "--for", "2h", *where)
    resume = ("recovery", "resume", *where)
    assert run_json(*pause, "--dry-run")["isDryRun"]
    assert {} == read_pauses(store)[0].entries
    found = run_json(*pause)
    assert target.text == found["target"]
    (known,) = read_pauses(store)[0].entries.items()
    assert (target, found["untilMillis"]) == (known[0], known[1].until_ms)
    assert 2 * HOUR <= known[1].until_ms - begun_ms < 3 * HOUR
    assert "@" in known[1].by
    assert run_json(*resume, "--dry-run")["wasPaused"]
    assert run_json(*resume)["wasPaused"]
    assert {} == read_pauses(store)[0].entries
    assert not run_json(*resume)["wasPaused"]


def test_a_pause_says_how_long_it_goes_on(records: Path) -> None:
    """
    And when workers notice it.
    """
    words = ("set", "c/s", "--for", "2h", "--records", records)
    line = run("recovery", "pause", *words).stdout
    assert line.startswith("set c/s pauses for 2 h, until ")
    assert line.endswith("; workers notice it within 20 s\n")
    goes_on = run("recovery", "resume", "set", "c/s", "--records", records)
    assert "set c/s goes on\n" == goes_on.stdout


def test_the_published_order_leaves_the_set_out_until_it_goes_on(
    records: Path, store: LmdbStore
) -> None:
    """
    Workers find it there at once.
    """

    def published() -> set[str]:
        found = store.get(page_key(0))
        return set() if found is None else set(decode_page(found.value, "").keys)

    words = ("set", "cluster/set", "--records", records)
    assert 0 == run("recovery", "pause", *words, "--for", "1h").exit_code
    assert set() == published()
    assert 0 == run("recovery", "resume", *words).exit_code
    assert segment(4).text in published()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("pause", "repair"), "give its end: --for 2h"),
        (("pause", "repair", "x", "--for", "1h"), "a pause is of repair"),
        (("pause", "set", "--for", "1h"), "set CLUSTER/SET"),
        (("pause", "set", "s", "--for", "1h"), "set CLUSTER/SET"),
        (("pause", "host", "a/b", "--for", "1h"), "host HOST"),
        (("pause", "all", "--for", "1h"), "'all' is not one of"),
        (("pause", "repair", "--for", "ever"), "is not a duration"),
        (("maintenance", "h"), "--for 2h, or end it"),
        (("maintenance", "h", "--for", "1h", "--end"), "--for 2h, or end it"),
        (("maintenance", "--for", "1h"), "name the HOST"),
        (("maintenance", "a/b", "--for", "1h"), "is neither a HOST nor"),
    ],
)
def test_wrong_words_are_refused(
    words: tuple[str, ...], line: str, records: Path
) -> None:
    """
    Before anything is read.
    """
    result = run("recovery", *words, "--records", records)
    assert 2 == result.exit_code
    assert line in " ".join(result.stderr.split())


def test_a_host_and_a_replica_may_be_away_for_a_time(
    records: Path, store: LmdbStore
) -> None:
    """
    AR-R3: listed, and ended before its time.
    """
    words = ("recovery", "maintenance", "--records", str(records))
    assert [] == run_json(*words)["maintenance"]
    assert "0 hosts and replicas are in maintenance\n" == run(*words).stdout
    run_json(*words, "10.0.0.1", "--for", "2h", "--dry-run")
    assert {} == read_maintenance(store)
    run_json(*words, "10.0.0.1", "--for", "2h")
    run_json(*words, "c/s/2", "--for", "1h")
    assert {
        MaintenanceTarget("10.0.0.1"),
        MaintenanceTarget("", "c", "s", 2),
    } == set(read_maintenance(store))
    lines = run(*words).stdout.splitlines()
    assert ["10.0.0.1: for", "c/s/2: for"] == [
        " ".join(line.split()[:2]) for line in lines
    ]
    assert all(", until " in line for line in lines)
    assert (
        "10.0.0.1: its maintenance is over\n" == run(*words, "10.0.0.1", "--end").stdout
    )
    assert (
        "10.0.0.1: it was in no maintenance\n"
        == run(*words, "10.0.0.1", "--end").stdout
    )
    assert ["c/s/2"] == [one["target"] for one in run_json(*words)["maintenance"]]
