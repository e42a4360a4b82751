"""
Real nodes and controllers in virtual time, with faults, and their history checked.

    python tests/sim/run.py --seeds 10 [--first 0] [--seconds 60] [--only FAULT]
    python tests/sim/run.py --recovery --seeds 10 [--first 0] [--steps 200]

Each seed is one set for a minute of virtual time; with ``--recovery`` one with two
processes of AutoRecovery, for a schedule of steps. Exit codes: 0 all held, 1 something
did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from sim.clock import restart_with_clock  # noqa: E402

restart_with_clock()

from sim import standard_library  # noqa: E402

standard_library.install()

from chaos.checker import violations  # noqa: E402
from chaos.history import Appended, Caused  # noqa: E402
from sim import core_waits  # noqa: E402
from sim.broker import SEGMENT  # noqa: E402
from sim.broker_set import BrokerSet  # noqa: E402
from sim.clients import Clients  # noqa: E402
from sim.faults import DESTRUCTIVE, FAULTS, Fault, Surroundings  # noqa: E402
from sim.final_log import final_of  # noqa: E402
from sim.recovery_round import RecoveryRound  # noqa: E402
from sim.world import FOLDER, MS, SECOND, Task, World  # noqa: E402

core_waits.install()

_QUIET = 20
_SHOWN, _CHARACTERS = 10, 2_000
_RETAINING = 0.4
_LATE = 0.5


class Round:
    """
    One set with faults.

    Args:
        seed: of all chance.
        seconds: with faults, of virtual time.
        faults: of these.
    """

    def __init__(self, seed: int, seconds: int, faults: tuple[Fault, ...]) -> None:
        self._seconds, self._faults = seconds, faults
        self._draw = draw = Random(seed)
        self.world = World(draw.getrandbits(64))
        self.brokers = BrokerSet(
            self.world,
            FOLDER / f"pystore-sim-{os.getpid()}",
            brokers=draw.choice([2, 3, 3, 3]),
            controllers=draw.choice([1, 2, 3]),
            min_in_sync=draw.choice([1, 2]),
            is_quick=True,
        )
        self._retains = draw.random() < _RETAINING
        if self._retains:
            for one in self.brokers.brokers.values():
                one.more["commitLogBytesMax"] = 4 * SEGMENT
                one.more["syncFromLastFile"] = draw.choice(["true", "false"])
        elif draw.random() < _LATE:
            # One that gets an empty disk is filling from then on, and never master.
            for one in self.brokers.brokers.values():
                one.more["syncFromLastFile"] = "true"
        self.caused: list[Caused] = []
        self.counts: Counter[str] = Counter()
        self._errors: list[Exception] = []

    def run(self) -> list[str]:
        """
        Returns what was violated.
        """
        try:
            with self.brokers:
                found = self._run()
        except Exception as error:
            # The set did not become whole, stores differ, or a process crashed.
            is_told = isinstance(error, AssertionError) and str(error)
            found = [str(error) if is_told else traceback.format_exc()]
        return [*found, *self.brokers.defects, *self.brokers.records.broken]

    def _run(self) -> list[str]:
        brokers, world, draw = self.brokers, self.world, self._draw
        brokers.start()
        brokers.await_complete()
        clients = Clients(brokers, draw, draw.choice([100, 300, 1_000]) * MS)
        around = Surroundings(brokers, clients, draw)
        end_ns = world.now_ns + self._seconds * SECOND
        while world.now_ns < end_ns:
            self._await_acks(clients)
            count = 2 if draw.random() < 0.5 else 1
            chosen = draw.sample(self._faults, min(count, len(self._faults)))
            if len(DESTRUCTIVE.intersection(chosen)) > 1:
                continue
            if DESTRUCTIVE.intersection(chosen):
                brokers.await_complete()
            self._cause(chosen, around)
        self._await_acks(clients)
        clients.is_writing = False
        world.run(5 * SECOND)
        brokers.await_complete()
        world.run(SECOND)
        for one in brokers.brokers.values():
            one.stop()
        is_over = world.run(
            60 * SECOND, lambda: not any(one.is_up for one in brokers.brokers.values())
        )
        assert is_over, "a broker does not end"
        final = final_of([one.store for one in brokers.brokers.values()])
        self._count(clients)
        rows = [*clients.rows, *self.caused]
        return violations(rows, final, retains=self._retains)

    def _await_acks(self, clients: Clients) -> None:
        """
        Waits until `all` is acknowledged again.
        """
        wanted = clients.acked + _QUIET
        end_ns = self.world.now_ns + 120 * SECOND
        while clients.acked < wanted:
            self.world.run(100 * MS)
            for one in self.brokers.brokers.values():
                if one.ended and not one.is_up:
                    # As a supervisor does.
                    one.start()
            for other in self.brokers.controllers:
                if not other.is_up:
                    other.start()
            assert self.world.now_ns < end_ns, (
                f"nothing is acknowledged: {clients.known}"
            )

    def _cause(self, chosen: list[Fault], around: Surroundings) -> None:
        ended: list[Fault] = []

        def cause(fault: Fault, after_ns: int) -> Task:
            yield after_ns
            begun = self.world.now_ns
            try:
                yield from fault(around)
            except Exception as error:
                # Any error: the round ends with it.
                self._errors.append(error)
            self.caused.append(Caused(fault.__name__, begun, self.world.now_ns))
            ended.append(fault)

        for number, one in enumerate(chosen):
            delay = self._draw.choice([0, 100, 1_000, 3_000]) * MS if number else 0
            self.world.spawn(cause(one, delay))
        self.world.run(300 * SECOND, lambda: len(ended) == len(chosen))
        if self._errors:
            raise self._errors[0]
        assert len(ended) == len(chosen), f"a fault does not end: {chosen}"

    def _count(self, clients: Clients) -> None:
        rows = [one for one in clients.rows if isinstance(one, Appended)]
        self.counts.update(
            {
                "appends": len(rows),
                "acknowledged": sum(one.is_acked for one in rows),
                "epochs": len({one.epoch for one in rows if one.is_acked}),
                "faults": len(self.caused),
                "steps": self.world.steps,
                "virtual ms": (self.world.now_ns - 1_000 * SECOND) // MS,
            }
        )


def main() -> int:
    """
    Runs what the arguments say; returns the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--length", type=int, default=60, help="virtual, of each")
    parser.add_argument("--seconds", type=float, default=1e9, help="real, of all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    names = [one.__name__ for one in FAULTS]
    parser.add_argument("--only", action="append", choices=names, metavar="FAULT")
    parser.add_argument("--recovery", action="store_true", help="with AutoRecovery")
    parser.add_argument("--steps", type=int, default=200, help="of each, with it")
    parser.add_argument("--lines", action="store_true", help="of all processes")
    asked = parser.parse_args()
    jobs = min(asked.jobs, asked.seeds)
    workers: list[int] = []
    for number in range(jobs):
        worker = os.fork()
        if not worker:
            code = 2
            try:
                code = _work(asked, range(number, asked.seeds, jobs))
            except BaseException:
                # Any error: a forked process must not go on as its parent.
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        workers.append(worker)
    codes = [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in workers]
    return max(codes)


def _work(asked: argparse.Namespace, numbers: range) -> int:
    """
    Runs some of the seeds; returns the exit code.
    """
    wanted = asked.only or [one.__name__ for one in FAULTS]
    faults = tuple(one for one in FAULTS if one.__name__ in wanted)
    begun, failed, total = time.monotonic(), 0, Counter[str]()
    for number in numbers:
        if time.monotonic() - begun > asked.seconds:
            break
        seed = asked.first + number
        one: Round | RecoveryRound = (
            RecoveryRound(seed, asked.steps)
            if asked.recovery
            else Round(seed, asked.length, faults)
        )
        found = one.run()
        total += one.counts
        total["seeds"] += 1
        if found:
            failed += 1
            words = [f"--only {name}" for name in asked.only or []]
            words += [f"--length {asked.length}"]
            if asked.recovery:
                words = [f"--recovery --steps {asked.steps}"]
            for violation in found[:_SHOWN]:
                print(f"seed {seed}: {violation[:_CHARACTERS]}")
            print(
                f"    again: {sys.executable} tests/sim/run.py --first {seed} "
                f"--seeds 1 --lines {' '.join(words)}",
                flush=True,
            )
        if asked.lines:
            _print_lines(one)
    seconds = time.monotonic() - begun
    counts = ", ".join(f"{name} {count}" for name, count in total.items())
    print(f"{counts}; {failed} failed; {seconds:.0f} s", flush=True)
    return 1 if failed or not total["seeds"] else 0


def _print_lines(one: Round | RecoveryRound) -> None:
    for fault in one.caused:
        begin_s, end_s = fault.begin_ns / SECOND, fault.end_ns / SECOND
        print(f"{begin_s:.3f} {end_s:.3f} {fault.name}")
    brokers = one.brokers
    for place in (*brokers.controllers, *brokers.brokers.values(), *brokers.recoveries):
        print(place.name, *place.lines, sep="\n   ")


if __name__ == "__main__":
    sys.exit(main())
