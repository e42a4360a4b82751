"""
Verification of replicas whose brokers serve, processes all, without Spark: what its
driver marks, passes over, and when it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lib.broker_process import until
from lib.mended_set import SEGMENT, damage
from lib.spark.verify_job import run_here
from lib.verified_set import VerifiedSet, verified_set

from pystore.autorecovery.controllers import LeadingControllers
from pystore.autorecovery.peer_client import RemotePeers
from pystore.cli.recovery.records import records_opener
from pystore.controller.client.client import ControllerClient
from pystore.spark.peers.access import BrokerAccess
from pystore.spark.peers.run import PeerVerification, RoundWishes
from pystore.spark.verify.executors import RunTasks
from pystore.spark.verify.run import VerifyRun

_REPAIR_S = 180  # a worker looks for work every few seconds


@contextmanager
def _opened(found: VerifiedSet, **wishes: Any) -> Iterator[PeerVerification]:
    chosen = RoundWishes(**{"is_marking": True, "direct_share": 0, **wishes})
    address = found.controller.address
    with (
        LeadingControllers(lambda: ControllerClient((address,))) as controllers,
        RemotePeers() as peers,
    ):
        yield PeerVerification(
            controllers,
            peers,
            records_opener(str(found.records), None),
            access=BrokerAccess(),
            wishes=chosen,
        )


def _bad(run: VerifyRun) -> list[tuple[str, str, int | None]]:
    return [(it.verdict, it.store, it.segment) for it in run.verdicts if it.is_bad]


def _marked(found: VerifiedSet) -> list[tuple[int, list[tuple[int, str]]]]:
    return [
        (
            one["startOffset"],
            [(it["brokerId"], it["reason"]) for it in one["missing"]],
        )
        for one in found.ask("list")["segments"]
    ]


def _after(act: Callable[[], object]) -> RunTasks:
    """
    Runs tasks in this process; something happens before the driver has the results.
    """

    def run(
        tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
    ) -> list[Any]:
        results = run_here(tasks, function, size)
        act()
        return results

    return run


def test_damage_is_marked_repaired_and_found_whole_by_the_next_round(
    tmp_path: Path,
) -> None:
    """
    A bit of the master, a file of a slave; exactly these two segments.
    """
    with verified_set(tmp_path, 6) as found, _opened(found) as job:
        damage(tmp_path / "one", 3 * SEGMENT, "payload bit")
        damage(tmp_path / "two", SEGMENT, "missing")
        first = job.round(run_here)
        one, two = found.text("one"), found.text("two")
        wanted = [("ABSENT", two, SEGMENT), ("CORRUPT", one, 3 * SEGMENT)]
        assert wanted == sorted(_bad(first))
        numbers = [int(text.rpartition("/")[2]) for text in (two, one)]
        assert [
            (SEGMENT, [(numbers[0], "ABSENT")]),
            (3 * SEGMENT, [(numbers[1], "CORRUPT")]),
        ] == sorted(_marked(found))
        daemon = found.recovery()
        until(lambda: not _marked(found), _REPAIR_S)
        assert 0 == daemon.stop()
        again = job.round(run_here, number=1)
        assert [] == _bad(again)
        assert {"OK"} == {str(row.verdict) for row in again.verdicts}
        assert 3 * 6 <= len(again.verdicts)
        assert [] == _marked(found)


def test_a_replica_that_was_started_again_since_the_plan_is_passed_over(
    tmp_path: Path,
) -> None:
    """
    Its damage is told, and the next round marks it.
    """
    with verified_set(tmp_path, 4) as found, _opened(found) as job:
        damage(tmp_path / "two", SEGMENT, "payload bit")
        two = found.text("two")

        def restart() -> None:
            broker = found.brokers["two"]
            broker.kill()
            broker.restart()
            broker.await_role("following")
            until(lambda: len(found.brokers["one"].status()["syncStateSet"]) == 3)

        run = job.round(_after(restart))
        assert [("CORRUPT", two, SEGMENT)] == _bad(run)
        why = f"{two} segment {SEGMENT}: its process was started again since the plan"
        assert [why] == job.marks.passed_over
        assert ([], []) == (job.marks.confirmed, _marked(found))
        assert [("CORRUPT", two, SEGMENT)] == _bad(job.round(run_here, number=1))
        assert [SEGMENT] == [base for base, _ in _marked(found)]


def test_too_much_damage_of_a_replica_marks_nothing_without_force(
    tmp_path: Path,
) -> None:
    """
    AR-R7: 17 segments of one; up to 16 never stop a round.
    """
    with verified_set(tmp_path, 18) as found:
        for index in range(17):
            damage(tmp_path / "three", index * SEGMENT, "payload bit")
        three = found.text("three")
        with _opened(found) as job:
            assert 17 == len(_bad(job.round(run_here)))
            assert f"17 of 18 segments ({three})" in job.marks.problem
            assert "--force" in job.marks.problem
            assert ([], []) == (job.marks.confirmed, _marked(found))
        with _opened(found, is_forced=True) as job:
            job.round(run_here)
            assert ("", 17) == (job.marks.problem, len(_marked(found)))


def test_a_pause_that_begins_while_a_round_runs_ends_it_before_its_next_batch(
    tmp_path: Path,
) -> None:
    """
    BookKeeper's `testPeriodicCheckWhenDisabled`, and a pause between: no more bytes are
    read, not even to confirm, so nothing is marked. Verdicts so far are told.
    """
    with verified_set(tmp_path, 3) as found, _opened(found) as job:
        damage(tmp_path / "two", SEGMENT, "payload bit")
        assert "" == job.why_not()
        pause = ("pause", "verification", "--for", "1h")
        run = job.round(_after(lambda: found.ask(*pause)))
        assert [("CORRUPT", found.text("two"), SEGMENT)] == _bad(run)
        assert job.stopped.startswith("verification is paused by ")
        assert [] == _marked(found)
        assert job.why_not().startswith("verification is paused by ")
        found.ask("resume", "verification")
        found.ask("disable")
        assert job.why_not().startswith("AutoRecovery is disabled")
        with _opened(found, is_marking=False) as looking:
            # What only looks goes on.
            assert "" == looking.why_not()
        found.ask("enable")
        job.round(run_here, number=1)
        assert ("", [SEGMENT]) == (job.stopped, [it for it, _ in _marked(found)])
