"""
``pystore recovery status`` over LMDB and over ZooKeeper.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest
from lib.autorecovery.statuses import DEAD, TAKEN, busy_queue
from lib.command_line import run, run_json, run_process
from lib.remoting.record_stores import put
from lib.remoting.zookeeper_server import ZookeeperServer

from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.clocks import wall_ms
from pystore.records.lmdb_store import LmdbStore


def first_line(records: Path) -> str:
    """
    Of the status.
    """
    return str(run("recovery", "status", "--records", records).stdout.splitlines()[0])


def test_the_first_line_says_what_stops_it(
    records: Path, queue: UnderReplicationQueue, empty: Path
) -> None:
    """
    AR-R24: that there is no Auditor, that taking is disabled, and each pause.
    """
    assert "repair is enabled, host-1:6 is the Auditor, nothing is paused" == (
        first_line(records)
    )
    assert "NO AUDITOR" == first_line(empty)
    queue.disable("ops@host")
    pause = ("recovery", "pause", "--records", records, "--for", "1h")
    for words in (("repair",), ("set", "cluster/set")):
        assert 0 == run(*pause, *words).exit_code
    off, repair, one_set = first_line(records).split("; ")
    assert off.startswith("DISABLED by ops@host, ")
    assert re.match("PAUSED: repair, for (59 min|1 h), until ", repair)
    assert re.match("PAUSED: set cluster/set, for (59 min|1 h), until ", one_set)


def test_the_status_shows_queue_claims_dead_lost_and_who_works(records: Path) -> None:
    """
    With alarms, and the evidence of what is dead.
    """
    result = run("recovery", "status", "--records", records)
    assert 1 == result.exit_code
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[1].startswith("alarm: 1 segments have no good copy, the first one for")
    for begin in (
        "Auditor host-1:6, waits for the next look, for ",
        "in the queue 3 segments, 3.22 GB",
        "being repaired 1 segments",
        "dead 1 segments",
        "lost 1 replicas",
        "delay 10 min after a loss",
        "0 at most one good copy 0 0 B -",
        "2 fewer copies than wanted 3 3.22 GB ",
        f"{TAKEN.text} host-1:7/0",
        "cluster/set/2 1 min",
        "host-1:7 digests of broker 1 ",
        f"{DEAD.text}: dead for ",
        "broker 1: blocks 3, 7 are bad",
        "broker 2: it is dead",
    ):
        assert [begin] == [begin for line in lines if line.startswith(begin)], begin


def test_an_empty_queue_is_shown_in_a_few_lines(empty: Path) -> None:
    """
    Nothing that is not there has a table.
    """
    result = run("recovery", "status", "--records", empty)
    assert 1 == result.exit_code
    assert [
        "NO AUDITOR",
        "alarm: no Auditor: lost and damaged copies are not marked",
        "",
        "Auditor         none",
        "in the queue    0 segments, 0 B",
        "being repaired  0 segments",
        "oldest mark     none",
        "dead            0 segments",
        "lost            0 replicas",
        "delay           10 min after a loss",
    ] == result.stdout.splitlines()


def test_without_an_alarm_the_exit_code_is_0(empty: Path) -> None:
    """
    A script needs no more.
    """
    store = LmdbStore(empty)
    store.campaign("recovery/auditor", "host-1:6")
    found = run_json("recovery", "status", "--records", empty)
    store.close()
    assert ([], "host-1:6", 0, []) == (
        found["alarms"],
        found["auditor"],
        found["segments"],
        found["dead"],
    )


def test_maintenance_and_unreadable_records_are_shown(records: Path) -> None:
    """
    Also one whose time is over: what is away since then is lost.
    """
    store = LmdbStore(records)
    put(store, "recovery/maintenance/h", b'{"at_ms":1,"by":"x","form":1,"until_ms":2}')
    put(store, "recovery/status/worker/w", b"?")
    store.close()
    words = ("maintenance", "h2", "--for", "1h", "--records", records)
    assert 0 == run("recovery", *words).exit_code
    result = run("recovery", "status", "--records", records)
    lines = result.stdout.splitlines()
    assert 1 == sum(
        line.startswith("h: its maintenance has been over for ") for line in lines
    )
    assert 1 == sum(line.startswith("h2: in maintenance for ") for line in lines)
    assert "alarm: 1 records cannot be read: see below" in lines
    assert lines[-1].startswith("unreadable: record recovery/status/worker/w: ")


def test_many_claims_and_dead_segments_are_cut_short(empty: Path) -> None:
    """
    The JSON has all.
    """
    store = LmdbStore(empty)
    for number in range(30):
        key = f"recovery/lock/cluster/set/{number:020}"
        put(store, key, b'{"form":1,"nonce":"n","worker":"w/0"}')
    store.close()
    lines = run("recovery", "status", "--records", empty).stdout.splitlines()
    assert "and 10 more" in lines
    found = run_json("recovery", "status", "--records", empty, exit_code=1)
    assert 30 == len(found["claims"])


def test_the_status_over_zookeeper_is_the_same(
    zookeeper: ZookeeperServer, tmp_path: Path
) -> None:
    """
    A process of its own, with the configuration file of the controllers; a pause and
    its end from the command line, too.
    """
    pytest.importorskip("kazoo", reason="needs the extra 'zookeeper'")
    from pystore.records.zookeeper_store import ZookeeperStore  # noqa: PLC0415

    root = f"/{uuid.uuid4().hex}"
    store = ZookeeperStore(zookeeper.hosts, root=root)
    busy_queue(store, wall_ms())
    config = tmp_path / "controller.toml"
    config.write_text(f'zookeeper = "{zookeeper.hosts}"\nzookeeperRoot = "{root}"\n')
    done = run_process("recovery", "status", "--json", "-c", config)
    assert (1, b"") == (done.returncode, done.stderr)
    found = json.loads(done.stdout)
    assert (3, [TAKEN.text], [DEAD.text], "host-1:6") == (
        found["segments"],
        [one["segment"] for one in found["claims"]],
        [one["segment"] for one in found["dead"]],
        found["auditor"],
    )
    words = ("set", "cluster/set", "-c", config)
    assert 0 == run_process("recovery", "pause", *words, "--for", "1h").returncode
    line = run_process("recovery", "status", "-c", config).stdout.splitlines()[0]
    assert line.startswith(b"PAUSED: set cluster/set, for ")
    assert 0 == run_process("recovery", "resume", *words).returncode
    servers = f"{zookeeper.hosts}{root}"
    nested = tmp_path / "nested.toml"
    nested.write_text('zookeeperRoot = "/"\n')
    found = run_json("recovery", "list", "--records", servers, "-c", nested)
    assert 3 == len(found["segments"])
    store.close()
