"""
Each part of the demo ends with a table and 0 missing records.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from lib.command_line import PYSTORE, run, run_json

from pystore.demo.timeline import EVENT_HEADER


def at(folder: Path) -> tuple[str, str]:
    """
    The option that says where.
    """
    return "--directory", str(folder)


@pytest.mark.parametrize(
    ("name", "words"), [("store", ()), ("replicas", ()), ("recovery", ("--recovery",))]
)
def test_an_existing_store_is_not_touched(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    """
    The demo creates its own store.
    """
    (tmp_path / name).mkdir()
    result = run("demo", "--directory", tmp_path, *words)

    assert 2 == result.exit_code
    assert f"{tmp_path / name} exists" in result.stderr
    assert [name] == os.listdir(tmp_path)


def test_too_small_a_disk_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    """
    The error has the needed and the free space.
    """
    result = run("demo", "--directory", tmp_path / "d", "--repeat", "10000")

    assert 3 == result.exit_code
    assert "needs 2.50 TB" in result.stderr
    assert not (tmp_path / "d" / "store").exists()


@pytest.mark.slow
def test_the_demo_loses_no_record_and_removes_its_store(tmp_path: Path) -> None:
    """
    A real run over the whole library.
    """
    found = run_json("demo", "--repeat", "1", "--part", "store", *at(tmp_path))

    assert 0 == found["missing"]
    assert found["lines"] == found["records"]
    assert found["failover"] is None
    assert [] == os.listdir(tmp_path)


@pytest.mark.slow
def test_both_parts_are_played_one_after_the_other(tmp_path: Path) -> None:
    """
    As `make demo` does it: events when they happen, a table for each part, and the
    picture.
    """
    into = tmp_path / "out"
    words = ("--repeat", "1", "--report", str(into), *at(tmp_path / "d"))
    ended = subprocess.run(
        [*PYSTORE, "demo", *words], capture_output=True, text=True, check=False
    )

    assert 0 == ended.returncode, ended.stderr
    assert 2 == ended.stdout.count("acknowledged but missing: 0")
    places = [
        ended.stdout.index(text)
        for text in ("writer ", EVENT_HEADER, "SIGKILL: broker 1", "looked up")
    ]
    assert sorted(places) == places
    assert (into / "timeline.svg").read_text("utf-8").startswith("<svg")
    assert [] == os.listdir(tmp_path / "d")


@pytest.mark.parametrize("which", [(), ("--recovery",)])
def test_a_report_that_cannot_be_written_is_refused_before_the_demo_begins(
    tmp_path: Path, which: tuple[str, ...]
) -> None:
    """
    The picture would be missing after some minutes.
    """
    into = tmp_path / "file" / "out"
    into.parent.touch()
    result = run("demo", *which, "--report", into, *at(tmp_path / "d"))

    assert 3 == result.exit_code
    assert f"{into}: Not a directory" in result.stderr
    assert not (tmp_path / "d").exists()


def test_several_controllers_need_zookeeper(tmp_path: Path) -> None:
    """
    Wrong usage, before anything is started.
    """
    result = run("demo", "--controllers", "3", *at(tmp_path / "d"))

    assert 2 == result.exit_code
    assert "--controllers 3 needs --zookeeper" in result.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("words", [("--part", "store"), ("--secure",)])
def test_the_demo_of_recovery_goes_without_other_parts(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """
    Wrong usage, before anything is started.
    """
    result = run("demo", "--recovery", *words, *at(tmp_path / "d"))

    assert 2 == result.exit_code
    assert "--recovery goes without --part" in result.stderr
    assert not (tmp_path / "d").exists()


def test_a_terminated_demo_leaves_no_process_and_no_store(tmp_path: Path) -> None:
    """
    The exit code is that of the signal.
    """
    words = ("--part", "replicas", *at(tmp_path))
    with subprocess.Popen(
        [*PYSTORE, "demo", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "broker 1      master" in line:
                break
        assert (tmp_path / "replicas" / "broker-1").exists()
        process.terminate()
        process.stdout.read()

    assert 128 + signal.SIGTERM == process.returncode
    assert [] == os.listdir(tmp_path)


@pytest.mark.slow
def test_on_a_terminal_bars_are_drawn_and_cleared(tmp_path: Path) -> None:
    """
    Only the table remains.
    """
    parent, child = pty.openpty()
    words = ("--part", "store", "--repeat", "7", *at(tmp_path))
    command = [*PYSTORE, "demo", *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=child,
        env=os.environ | {"TERM": "xterm"},
    ) as process:
        os.close(child)
        drawn = b""
        while True:
            try:
                drawn += os.read(parent, 65536)
            except OSError:
                # Linux raises this when the other end is closed.
                break
        assert process.stdout is not None
        table = process.stdout.read().decode()
    os.close(parent)

    assert 0 == process.returncode
    assert drawn.endswith(b"\x1b[2K")
    assert b"%" in drawn
    assert "acknowledged but missing: 0" in table.splitlines()[-1]
    assert "\x1b" not in table
