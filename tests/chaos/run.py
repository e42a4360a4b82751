"""
Real brokers under real controllers, with faults, and their history checked offline.

    python tests/chaos/run.py --rounds 2 [--seconds 75] [--seed 7] [--only NAME]
        [--recovery]

Each round has a folder of its own below ``build/chaos``, with the history, the lines of
all processes, and what was violated. Exit codes: 0 all held, 1 something did not, 2
this machine cannot run it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from chaos.broker_set import BROKERS, ChaosSet  # noqa: E402
from chaos.checker import Final, Record, violations  # noqa: E402
from chaos.damages import DAMAGES, RECOVERY_FAULTS  # noqa: E402
from chaos.faults import (  # noqa: E402
    DESTRUCTIVE,
    FAULTS,
    LOSING,
    PATIENCE_S,
    Fault,
    Surroundings,
    zookeeper_is_paused,
)
from chaos.history import Appended, Caused, History, Row, rows_of  # noqa: E402
from chaos.machines import missing  # noqa: E402
from chaos.workload import Target, Workload  # noqa: E402
from lib.command_line import PYSTORE  # noqa: E402
from lib.remoting.zookeeper_server import missing as no_zookeeper  # noqa: E402

_QUIET_S = 1.0
_SHOWN = 20
_PAIRS, _WHOLE = 0.4, 0.5
_RETAINING = 0.5
_HARMFUL = DESTRUCTIVE | frozenset(DAMAGES)


def main() -> int:
    """
    Runs what the arguments say; returns the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=75, help="of each round")
    parser.add_argument("--controllers", type=int, help="by default 1 and 3 by turns")
    parser.add_argument(
        "--recovery", action="store_true", help="with AutoRecovery, and damage"
    )
    parser.add_argument("--only", action="append", help="a fault; of these by chance")
    asked = parser.parse_args()
    lacking = missing()
    if lacking is not None:
        print(f"chaos needs what this machine lacks: {lacking}")
        return 2
    # A broker that does not answer in the end tells the stacks of its threads.
    os.environ["PYTHONFAULTHANDLER"] = "1"
    first = asked.seed
    if first is None:
        first = random.SystemRandom().randrange(10**9)
    usual = (1,) if no_zookeeper() else (1, 3)
    failed = 0
    for number in range(asked.rounds):
        controllers = asked.controllers or usual[number % len(usual)]
        setting = Setting(
            first + number,
            controllers,
            asked.seconds,
            asked.only or [],
            asked.recovery,
        )
        failed += bool(_round(setting))
    print(f"{failed} of {asked.rounds} rounds failed", flush=True)
    return 1 if failed else 0


@dataclass(frozen=True, slots=True)
class Setting:
    """
    Of one round.

    Attributes:
        seed: of chance.
        controllers: how many.
        seconds: with faults.
        only: names of faults; empty: all.
        recovers: AutoRecovery runs, and repairs damage.
    """

    seed: int
    controllers: int
    seconds: float
    only: list[str]
    recovers: bool


def _round(setting: Setting) -> list[str]:
    folder = ROOT / "build" / "chaos" / str(setting.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"\nseed {setting.seed}, controllers: {setting.controllers}", flush=True)
    try:
        found = run(folder, setting)
    except Exception as error:
        # Any error: the folder has what is needed to understand it.
        found = ["".join(traceback.format_exception(error))]
    (folder / "violations").write_text("\n".join(found), "utf-8")
    for one in found[:_SHOWN]:
        print(f"VIOLATION {one}")
    if found:
        words = " ".join(f"--only {one}" for one in setting.only)
        print(
            f"{len(found)} violations; history and logs: {folder}\n    again: "
            f"{sys.executable} tests/chaos/run.py --seed {setting.seed} --seconds "
            f"{setting.seconds} --controllers {setting.controllers} {words}"
            f"{' --recovery' if setting.recovers else ''}",
            flush=True,
        )
    return found


def run(folder: Path, setting: Setting) -> list[str]:
    """
    Runs one set; returns what was violated.
    """
    draw = random.Random(setting.seed)
    faults = [
        one
        for one in (
            *FAULTS,
            *(RECOVERY_FAULTS if setting.recovers else ()),
            *(LOSING if setting.only else ()),
        )
        if (not setting.only or one.__name__ in setting.only)
        and (one is not zookeeper_is_paused or setting.controllers > 1)
    ]
    retains, minimum = draw.random() < _RETAINING, draw.choice([1, 2])
    how = "deleted" if retains else "kept"
    print(f"`all` needs {minimum} copies, old segments are {how}")
    with (
        ChaosSet(
            folder,
            setting.controllers,
            minimum,
            retains=retains,
            recovers=setting.recovers,
        ) as brokers,
        History(folder / "history.jsonl") as history,
    ):
        try:
            targets = {
                name: Target(name, brokers.brokers[name].path) for name in BROKERS
            }
            brokers.await_complete(PATIENCE_S)
            around = Surroundings(brokers, targets, draw)
            with Workload(list(targets.values()), history, draw) as workload:
                end_s = time.monotonic() + setting.seconds
                while time.monotonic() < end_s:
                    _await_acks(brokers, history)
                    chosen = _chosen(faults, draw)
                    if _HARMFUL.intersection(chosen) or draw.random() < _WHOLE:
                        brokers.await_complete(PATIENCE_S)
                    _cause(chosen, around, history)
                    workload.check()
                brokers.await_complete(PATIENCE_S)
                _await_acks(brokers, history)
                if setting.recovers:
                    brokers.await_repaired(PATIENCE_S)
                workload.stop_writing()
                brokers.await_level(PATIENCE_S)
                time.sleep(_QUIET_S)
            workload.check()
            codes = [brokers.brokers[name].stop() for name in BROKERS]
            assert codes == [0] * len(BROKERS), f"exit codes {codes}"
            final = _final(brokers, folder)
        finally:
            for name, lines in brokers.said().items():
                (folder / f"{name}.log").write_text("".join(lines), "utf-8")
    rows = list(rows_of(folder / "history.jsonl"))
    _summary(rows)
    return violations(rows, final, retains=retains)


def _chosen(faults: list[Fault], draw: random.Random) -> list[Fault]:
    """
    Returns one fault or two.
    """
    count = 2 if len(faults) > 1 and draw.random() < _PAIRS else 1
    while True:
        chosen = draw.sample(faults, count)
        if len(_HARMFUL.intersection(chosen)) <= 1:
            return chosen


def _cause(chosen: list[Fault], around: Surroundings, history: History) -> None:
    """
    Causes one fault, or two of which the second begins during the first.
    """
    draw = around.draw
    under_way: list[tuple[str, int, Iterator[None]]] = []
    for one in chosen:
        print(f"{time.monotonic():.1f} {one.__name__}", flush=True)
        begun = History.now_ns()
        fault = one(around)
        next(fault, None)  # it may end at once: the set would not survive it
        under_way.append((one.__name__, begun, fault))
        time.sleep(draw.choice([0.05, 0.5, 1, 2, 5]) * draw.uniform(0.5, 1))
    draw.shuffle(under_way)
    for _, _, fault in under_way:
        next(fault, None)
    for name, begun, fault in under_way:
        next(fault, None)
        history.add(Caused(name, begun, History.now_ns()))


def _await_acks(brokers: ChaosSet, history: History) -> None:
    """
    Waits until `all` is acknowledged again.
    """
    before = history.acked
    end_s = time.monotonic() + PATIENCE_S
    while history.acked < before + 20:
        brokers.restart_ended()
        assert time.monotonic() < end_s, (
            f"nothing is acknowledged for {PATIENCE_S} s: {brokers.statuses()}"
        )
        time.sleep(0.05)


def _final(brokers: ChaosSet, folder: Path) -> Final:
    """
    Returns the log in the end; all stores have it, and each is whole.
    """
    stores = [brokers.store(name) for name in BROKERS]
    for name, store in zip(BROKERS, stores, strict=True):
        _checked("verify", store)
        if store != stores[0]:
            _checked("compare", stores[0], store)
        print(f"{name} is whole", flush=True)
    dump = folder / "dump.jsonl"
    with dump.open("wb") as file:
        subprocess.run(
            [*PYSTORE, "dump", stores[0], "--bodies"], check=True, stdout=file
        )
    with dump.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return Final(
        rows[0]["offset"],
        [
            Record(
                one["offset"],
                one["queueId"],
                one["queueOffset"],
                one["body"].rstrip("x"),
            )
            for one in rows
        ],
    )


def _checked(*words: str | Path) -> None:
    done = subprocess.run(
        [*PYSTORE, *words], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def _summary(rows: list[Row]) -> None:
    appended = [one for one in rows if isinstance(one, Appended)]
    acked = Counter(one.ack for one in appended if one.is_acked)
    refused = Counter(one.outcome for one in appended if not one.is_acked)
    faults = Counter(one.name for one in rows if isinstance(one, Caused))
    epochs = {one.epoch for one in appended if one.is_acked}
    print(f"acknowledged {dict(acked)} in {len(epochs)} epochs")
    print(f"not acknowledged {dict(refused)}")
    print(f"faults {dict(faults)}")
    ends = sorted(one.end_ns for one in appended if one.is_acked and one.is_shared)
    longest: dict[str, float] = {}
    for one in rows:
        if isinstance(one, Caused):
            gap_s = _longest_gap_ns(ends, one) / 1e9
            longest[one.name] = max(gap_s, longest.get(one.name, 0.0))
    told = ", ".join(f"{name} {gap_s:.1f}" for name, gap_s in longest.items())
    print(f"longest time without an ack of `all`, in s: {told}", flush=True)


def _longest_gap_ns(ends: list[int], fault: Caused) -> int:
    """
    Returns the longest time between two acks of which one is during a fault, or the
    next one after it.

    Args:
        ends: times of acks, ascending.
        fault: over when the set acknowledges again.
    """
    first = max(bisect_left(ends, fault.begin_ns) - 1, 0)
    around = ends[first : bisect_left(ends, fault.end_ns) + 1]
    return max((after - before for before, after in pairwise(around)), default=0)


if __name__ == "__main__":
    sys.exit(main())
