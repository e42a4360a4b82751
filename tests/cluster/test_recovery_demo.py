"""
``pystore demo --recovery`` as a user runs it: hosts, daemons and commands are real, and
no acknowledged record is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from lib.command_line import run, run_json
from lib.demo_library import make_library

from pystore.demo.corpus import Corpus, read_corpus
from pystore.demo.recovery_run import RecoveryDemoSettings, run_recovery
from pystore.demo.recovery_story import LAST_HOSTS, SETS, STORY_NAMES
from pystore.demo.timeline import TimelineEvent


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """
    Some files.
    """
    return read_corpus(make_library(tmp_path / "library"))


def running(folder: Path) -> Iterator[str]:
    """
    The command lines of all processes that name a folder, where the system lists them.
    """
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in words and str(os.getpid()) != path.parent.name:
                yield words


@pytest.mark.slow
def test_all_stories_come_true_and_nothing_acknowledged_is_missing(
    tmp_path: Path,
) -> None:
    """
    The last hosts have equal copies of all sets; the picture has a lane for each host.
    """
    into = tmp_path / "out"
    words = ("--directory", tmp_path / "d", "--report", into, "--keep")
    found = run_json("demo", "--recovery", *words)["recovery"]

    assert found["isGood"]
    assert 0 == found["missing"] == found["unreadable"]
    assert list(STORY_NAMES) == [one["name"] for one in found["stories"]]
    assert list(SETS) == [one["name"] for one in found["sets"]]
    for one in found["sets"]:
        assert one["acknowledged"] > 0
        assert list(LAST_HOSTS) == [it["host"] for it in one["stores"]]
        stores = [it["store"] for it in one["stores"]]
        for store in stores:
            (told,) = run_json("verify", store)["stores"]
            assert ("whole", 0) == (told["verdict"], told["missingEntries"])
        for store in stores[1:]:
            assert 0 == run("compare", stores[0], store).exit_code
    said = [one["what"] for one in found["timeline"]]
    for text in ("ABSENT", "are bad, repaired", "is dead: no good copy", "SIGKILL"):
        assert any(text in one for one in said), text
    picture = (into / "recovery.svg").read_text("utf-8")
    assert 5 == picture.count('class="lane"')
    assert [] == list(running(tmp_path / "d"))


def test_a_story_that_does_not_come_true_ends_the_demo_with_its_reason(
    tmp_path: Path, corpus: Corpus
) -> None:
    """
    And leaves no process.
    """
    folder = tmp_path / "d"
    folder.mkdir()
    said: list[TimelineEvent] = []
    settings = RecoveryDemoSettings(folder, bound_s=0.01)
    report = run_recovery(settings, corpus, said.append, lambda *_: None)

    assert "start: no sign of four hosts within 0.01 s" == report.problem
    assert not report.is_good
    assert [] == report.sets
    assert said == report.timeline.events
    assert report.timeline.end_s > 0
    assert [] == list(running(folder))
