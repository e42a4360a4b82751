"""
``pystore recovery enable``, ``disable``, ``kick``, ``delay``, ``settings``,
``auditor``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import run, run_json

from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import KICK
from pystore.records.lmdb_store import LmdbStore


def told(records: Path, *words: str, code: int = 0) -> str:
    """
    What a command prints.
    """
    result = run("recovery", *words, "--records", records)
    assert code == result.exit_code, result.output
    return str(result.stdout.rstrip("\n"))


def test_taking_is_disabled_and_enabled(
    records: Path, queue: UnderReplicationQueue
) -> None:
    """
    Each says whether it changed anything; a dry run does not.
    """
    steps = [
        (("disable", "--dry-run"), True),
        (("disable",), False),
        (("disable",), False),
        (("enable", "--dry-run"), False),
        (("enable",), True),
        (("enable",), True),
    ]
    lines = []
    for words, is_enabled in steps:
        lines.append(told(records, *words))
        assert is_enabled == queue.is_enabled()
    assert [
        "would be done: repair is disabled\nnothing was changed",
        "repair is disabled",
        "repair is disabled, as it was",
        "would be done: repair is enabled\nnothing was changed",
        "repair is enabled",
        "repair is enabled, as it was",
    ] == lines
    found = run_json("recovery", "disable", "--records", records)
    assert (False, True) == (found["enabled"], found["wasEnabled"])


@pytest.mark.parametrize("name", ["kick", "triggeraudit"])
def test_an_audit_is_asked_for(name: str, records: Path) -> None:
    """
    Also by BookKeeper's name.
    """
    store = LmdbStore(records)
    run_json("recovery", name, "--records", records, "--dry-run")
    assert store.get(KICK) is None
    found = run_json("recovery", name, "--records", records)
    record = store.get(KICK)
    assert record is not None
    assert record.version == found["version"]
    store.close()


def test_the_delay_is_shown_and_set(
    records: Path, queue: UnderReplicationQueue
) -> None:
    """
    BK-A22, BK-A30: also the same one is written.
    """
    assert "the delay is 10 min" == told(records, "delay")
    told(records, "delay", "30m", "--dry-run")
    assert 600 == queue.settings().delay_s
    assert "the delay is 30 min, was 10 min" == told(records, "delay", "30m")
    assert 1800 == queue.settings().delay_s
    assert "the delay is 0 s, was 30 min" == told(records, "delay", "0")
    found = run_json("recovery", "lostbookierecoverydelay", "--records", records)
    assert {"schemaVersion": 1, "delaySeconds": 0} == found
    told(records, "delay", "soon", code=2)


def test_settings_are_shown_and_changed(
    records: Path, queue: UnderReplicationQueue
) -> None:
    """
    Several at once, by their names.
    """
    lines = told(records, "settings").splitlines()
    assert ["delay_s", "600"] == lines[0].split()
    assert ["placement_repair", "false"] in [line.split() for line in lines]
    words = ("settings", "worker_slots=4", "placement_repair=TRUE")
    told(records, *words, "--dry-run")
    assert 2 == queue.settings().worker_slots
    assert "worker_slots is 4, was 2\nplacement_repair is true, was false" == told(
        records, *words
    )
    found = run_json("recovery", "settings", "--records", records)["settings"]
    assert (4, True, 600) == (
        found["workerSlots"],
        found["placementRepair"],
        found["delayS"],
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("worker_slots", 2),
        ("no_such=1", 2),
        ("more=1", 2),
        ("worker_slots=many", 2),
        ("placement_repair=1", 2),
        ("brake_percent=101", 3),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_wrong_setting_changes_nothing(
    change: str,
    code: int,
    more: tuple[str, ...],
    records: Path,
    queue: UnderReplicationQueue,
) -> None:
    """
    Also beside a right one, and a dry run finds it.
    """
    told(records, "settings", "delay_s=1", change, *more, code=code)
    assert 600 == queue.settings().delay_s


@pytest.mark.parametrize("name", ["auditor", "whoisauditor"])
def test_the_auditor_is_named_with_what_it_waits_for(
    name: str, records: Path, empty: Path
) -> None:
    """
    The exit code says that there is none.
    """
    pairs = dict(line.split("  ", 1) for line in told(records, name).splitlines())
    assert ["auditor", "waits for", "for"] == [one.strip() for one in pairs]
    assert "host-1:6" == pairs["auditor"].strip()
    found = run_json("recovery", name, "--records", records)
    assert ("host-1:6", "the next look", 3) == (
        found["auditor"],
        found["activity"]["waitsFor"],
        found["activity"]["unknown"],
    )
    assert told(empty, name, code=1).startswith("no Auditor")
    found = run_json("recovery", name, "--records", empty, exit_code=1)
    assert (None, None) == (found["auditor"], found["activity"])
