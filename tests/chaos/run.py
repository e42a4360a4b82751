"""
Real brokers under real controllers, with faults, and their history checked offline.

    python tests/chaos/run.py --seconds 180 [--seed 7] [--controllers 3] [--only NAME]

Each run has a folder of its own below ``build/chaos``, with the history, the lines of
all processes, and what was violated. Exit codes: 0 all held, 1 something did not, 2
this machine cannot run it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from chaos.broker_set import BROKERS, ChaosSet  # noqa: E402
from chaos.checker import Final, Record, violations  # noqa: E402
from chaos.faults import FAULTS, PATIENCE_S, Surroundings, zookeeper_is_paused  # noqa: E402
from chaos.history import Appended, Fault, History, rows_of  # noqa: E402
from chaos.machines import missing  # noqa: E402
from chaos.workload import Target, Workload  # noqa: E402
from lib.command_line import PYSTORE  # noqa: E402

_QUIET_S = 1.0
_PAIRS = 0.4


def main() -> int:
    """
    Runs what the arguments say; returns the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--check", type=Path, help="only check the history of a folder")
    parser.add_argument("--only", action="append", default=[])
    asked = parser.parse_args()
    lacking = missing()
    if lacking is not None:
        print(f"chaos needs what this machine lacks: {lacking}")
        return 2
    folder = ROOT / "build" / "chaos" / str(asked.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"seed {asked.seed}, {asked.controllers} controllers: {folder}", flush=True)
    try:
        found = run(folder, asked)
    except Exception as error:
        # Any error: the folder has what is needed to understand it.
        found = ["".join(traceback.format_exception(error))]
    (folder / "violations").write_text("\n".join(found), "utf-8")
    for one in found[:20]:
        print(f"VIOLATION {one}")
    print(f"seed {asked.seed}: {len(found)} violations", flush=True)
    return 1 if found else 0


def run(folder: Path, asked: argparse.Namespace) -> list[str]:
    """
    Runs one set; returns what was violated.
    """
    draw = random.Random(asked.seed)
    faults = [
        one
        for one in FAULTS
        if (not asked.only or one.__name__ in asked.only)
        and (one is not zookeeper_is_paused or asked.controllers > 1)
    ]
    with (
        ChaosSet(folder, asked.controllers) as brokers,
        History(folder / "history.jsonl") as history,
    ):
        try:
            targets = {
                name: Target(name, brokers.brokers[name].path) for name in BROKERS
            }
            brokers.await_complete(PATIENCE_S)
            around = Surroundings(brokers, targets, draw)
            with Workload(list(targets.values()), history, draw) as workload:
                end_s = time.monotonic() + asked.seconds
                while time.monotonic() < end_s:
                    _await_acks(brokers, history)
                    count = 2 if draw.random() < _PAIRS else 1
                    _cause(draw.sample(faults, min(count, len(faults))), around, history)
                    workload.check()
                brokers.await_complete(PATIENCE_S)
                _await_acks(brokers, history)
                workload.stop_writing()
                brokers.await_level(PATIENCE_S)
                time.sleep(_QUIET_S)
            workload.check()
            codes = [broker.stop() for broker in brokers.brokers.values()]
            assert codes == [0] * len(BROKERS), f"exit codes {codes}"
            final = _final(brokers, folder)
        finally:
            for name, lines in brokers.said().items():
                (folder / f"{name}.log").write_text("".join(lines), "utf-8")
    rows = list(rows_of(folder / "history.jsonl"))
    _summary(rows)
    return violations(rows, final)


def _cause(chosen: list, around: Surroundings, history: History) -> None:  # type: ignore[type-arg]
    """
    One fault, or two of which the second begins during the first.
    """
    draw = around.draw
    under_way: list[tuple[str, int, Iterator[None]]] = []
    for one in chosen:
        print(f"{time.monotonic():.1f} {one.__name__}", flush=True)
        begun = History.now_ns()
        fault = one(around)
        next(fault)
        under_way.append((one.__name__, begun, fault))
        time.sleep(draw.choice([0.05, 0.5, 1, 2, 5]) * draw.uniform(0.5, 1))
    draw.shuffle(under_way)
    for _, _, fault in under_way:
        next(fault, None)
    for name, begun, fault in under_way:
        next(fault, None)
        history.add(Fault(name, begun, History.now_ns()))


def _await_acks(brokers: ChaosSet, history: History) -> None:
    """
    Waits until `all` is acknowledged again.
    """
    before = history.acked
    end_s = time.monotonic() + PATIENCE_S
    while history.acked < before + 20:
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
        subprocess.run([*PYSTORE, "dump", stores[0], "--bodies"], check=True, stdout=file)
    with dump.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return Final(
        rows[0]["offset"],
        [
            Record(
                one["offset"], one["queueId"], one["queueOffset"], one["body"].rstrip("x")
            )
            for one in rows
        ],
    )


def _checked(*words: str | Path) -> None:
    done = subprocess.run([*PYSTORE, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def _summary(rows: list) -> None:  # type: ignore[type-arg]
    appended = [one for one in rows if isinstance(one, Appended)]
    acked = Counter(one.ack for one in appended if one.is_acked)
    refused = Counter(one.outcome for one in appended if not one.is_acked)
    faults = Counter(one.name for one in rows if isinstance(one, Fault))
    epochs = {one.epoch for one in appended if one.is_acked}
    print(f"acknowledged {dict(acked)} in {len(epochs)} epochs")
    print(f"not acknowledged {dict(refused)}")
    print(f"faults {dict(faults)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
