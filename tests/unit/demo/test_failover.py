"""
Three brokers lose their master and their controller, and no acknowledged record.

The processes are real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from lib.demo_library import make_library
from lib.remoting.zookeeper_server import ZookeeperServer

from pystore.demo.corpus import Corpus, read_corpus
from pystore.demo.failover import (
    CONTROLLER,
    KILL,
    SWITCH,
    FailoverReport,
    FailoverSettings,
    run_failover,
)
from pystore.demo.replicas import AgreementReport
from pystore.demo.store_checks import StoreCheck
from pystore.demo.tail_cut import TailCut
from pystore.demo.timeline import MarkKind, Timeline, TimelineEvent
from pystore.errors import UnavailableError
from pystore.verify import verify_store

CALM_S, SEGMENT = 0.2, 16 << 20


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """
    Some files with long lines.
    """
    root = make_library(tmp_path / "library")
    (root / "long.txt").write_text("".join(f"{n:0500}\n" for n in range(4000)))
    return read_corpus(root)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """
    For the stores; afterwards no process of the run is left.
    """
    found = tmp_path / "set"
    found.mkdir()
    yield found
    assert [] == [words for words in running() if str(found) in words]


def running() -> Iterator[str]:
    """
    The command lines of all processes, where the system lists them.
    """
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def check_report(report: FailoverReport, said: list[TimelineEvent]) -> None:
    """
    Every act was played, and nothing that was acknowledged is missing.
    """
    assert report.is_good
    assert 0 == report.missing
    assert report.records > 0
    records = {one.records for one in report.checks}
    assert 1 == len(records)
    assert report.records <= records.pop()
    assert [1, 2, 3] == [one.broker for one in report.checks]
    assert {report.records} == {one.compared for one in report.checks}
    assert report.records == sum(count for _, count in report.timeline.acks)
    assert [KILL, SWITCH, CONTROLLER] == [gap.name for gap in report.timeline.gaps]
    assert said == report.timeline.events
    assert sorted(one.at_s for one in said) == [one.at_s for one in said]
    marks = [one.mark for one in said if one.mark is not None]
    assert [
        MarkKind.KILL,
        MarkKind.RESTART,
        MarkKind.SWITCH,
        MarkKind.CONTROLLER,
        MarkKind.CONTROLLER,
    ] == marks


@pytest.mark.parametrize("is_secure", [False, True], ids=["open", "secure"])
def test_a_killed_master_comes_back_and_cuts_what_only_it_had(
    folder: Path, corpus: Corpus, *, is_secure: bool
) -> None:
    """
    Nothing of that was acknowledged as `all`; it is master again in epoch 3. With
    users, proven links and TLS, too.
    """
    said: list[TimelineEvent] = []
    report = run_failover(
        FailoverSettings(
            folder, calm_s=CALM_S, segment_size=SEGMENT, is_secure=is_secure
        ),
        corpus,
        said.append,
        lambda *_: None,
    )

    check_report(report, said)
    assert report.cut is not None
    assert 1 == report.cut.broker
    assert report.cut.size_bytes > 0
    assert report.cut.records >= report.cut.leader_records > 0
    assert 0 == report.cut.all_records
    told = {(one.who, one.what) for one in said}
    assert ("broker 1", "master in epoch 1") in told
    assert ("broker 1", "master in epoch 3") in told
    roles = [
        span.state.role
        for span in report.timeline.spans(1)
        if span.state.role in {"down", "master"}
    ]
    assert ["master", "down", "master"] == roles
    for one in report.checks:
        assert "whole" == verify_store(one.store).verdict


@pytest.mark.slow
def test_three_controllers_over_zookeeper_replace_each_other(
    folder: Path, corpus: Corpus, zookeeper: ZookeeperServer
) -> None:
    """
    The one that leads is killed; brokers notice nothing.
    """
    said: list[TimelineEvent] = []
    report = run_failover(
        FailoverSettings(folder, 3, zookeeper.hosts, CALM_S, segment_size=SEGMENT),
        corpus,
        said.append,
        lambda *_: None,
    )

    check_report(report, said)
    leaders = [one.who for one in said if one.what == "leads"]
    assert 2 == len(set(leaders))


def test_a_process_that_cannot_start_ends_the_run_with_its_reason(
    folder: Path, corpus: Corpus
) -> None:
    """
    And leaves no process.
    """
    (folder / "records").write_text("no directory")
    with pytest.raises(UnavailableError, match="controller 1 ended with code"):
        run_failover(FailoverSettings(folder), corpus, lambda _: None, lambda *_: None)


def test_an_error_of_the_terminal_ends_the_run(folder: Path, corpus: Corpus) -> None:
    """
    As a closed pipe, told by whatever thread.
    """

    def tell(event: TimelineEvent) -> None:
        if event.what.startswith("master"):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_failover(
            FailoverSettings(folder, segment_size=SEGMENT),
            corpus,
            tell,
            lambda *_: None,
        )


def test_a_report_with_a_lost_record_is_not_good() -> None:
    """
    Nor one of unequal stores, or of none.
    """

    def report(*sizes: int, missing: int = 0, lost: int = 0) -> FailoverReport:
        checks = [
            StoreCheck(n, Path(), 9, missing, 9, size, "whole")
            for n, size in enumerate(sizes)
        ]
        cut = TailCut(1, 9, 5, 2, 2, lost)
        return FailoverReport(Timeline((1,)), checks=checks, cut=cut)

    assert report(5, 5, 5).is_good
    assert not report().is_good
    assert not report(5, 5, 6).is_good
    assert not report(5, 5, 5, lost=1).is_good
    bad = report(5, 5, 5, missing=2)
    assert (2, False) == (bad.missing, bad.is_good)
    differing = report(5, 5, 5)
    differing.agreement = AgreementReport(bad=(("/s", 0, "other bytes"),))
    assert not differing.is_good
    differing.agreement = AgreementReport(skipped="no Java")
    assert differing.is_good
