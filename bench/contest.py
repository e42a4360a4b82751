"""
Contests: a contender and its limit run in turns.

The speed of a machine changes, also because of other virtual machines. So a ratio
comes from pairs of runs that follow each other: A B, B A, A B, ... The first of a pair
changes, since the order may matter. The result is the median of the pairs' ratios, with
their spread.

A contender is a context manager. It prepares its files outside the timed region, yields
the function to time, then checks the result and cleans up. The function returns its own
seconds, or ``None`` to be timed from outside.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from machine import touch_memory

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

__all__ = ["Contender", "Contest", "Figure", "measure", "ratios"]

Timed = Callable[[], float | None]
Contender = Callable[[], AbstractContextManager[Timed]]


@dataclass(frozen=True)
class Figure:
    """
    Measurements of one value.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """
        The median.
        """
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        """
        The smallest value.
        """
        return min(self.values)

    @property
    def most(self) -> float:
        """
        The largest value.
        """
        return max(self.values)

    def scaled(self, amount: float) -> Figure:
        """
        Returns rates: *amount* divided by each value, which is in seconds.
        """
        return Figure(tuple(amount / value for value in self.values))


def ratios(limit: Figure, ours: Figure, factor: float = 1.0) -> Figure:
    """
    The speed of pystore as a share of the limit, pair by pair.

    Args:
        limit: seconds.
        ours: seconds.
        factor: our amount over that of the limit.
    """
    pairs = zip(limit.values, ours.values, strict=True)
    return Figure(tuple(factor * theirs / mine for theirs, mine in pairs))


def measure(contender: Contender) -> float:
    """
    The seconds of one run.
    """
    with contender() as timed:
        start = perf_counter()
        own = timed()
        taken = perf_counter() - start
    return taken if own is None else own


class Contest:
    """
    Runs a contender and its limits in turns, as one benchmark.

    Args:
        benchmark: the fixture of pytest-benchmark, which times ours.
        rounds: how many pairs.
        touched: bytes of memory to touch before each run.
    """

    def __init__(
        self, benchmark: BenchmarkFixture, rounds: int, touched: int = 0
    ) -> None:
        self._benchmark = benchmark
        self._rounds = rounds
        self._touched = touched

    def hold(
        self, ours: Contender, limits: Mapping[str, Contender]
    ) -> dict[str, Figure]:
        """
        Returns the seconds of each limit by its name, and of ours by ``pystore``.
        """
        taken: dict[str, list[float]] = {name: [] for name in (*limits, "pystore")}
        stack = ExitStack()

        def measure_limits(pairs: int) -> None:
            while any(len(taken[name]) < pairs for name in limits):
                for name, limit in limits.items():
                    self._settle()
                    taken[name].append(measure(limit))

        def prepare() -> tuple[tuple[Timed], dict[str, object]]:
            stack.close()
            pairs = len(taken["pystore"])
            measure_limits(pairs + 1 - pairs % 2)
            self._settle()
            return (stack.enter_context(ours()),), {}

        def run(timed: Timed) -> None:
            start = perf_counter()
            own = timed()
            outside = perf_counter() - start
            taken["pystore"].append(outside if own is None else own)

        with stack:
            self._benchmark.pedantic(run, setup=prepare, rounds=self._rounds)
        measure_limits(len(taken["pystore"]))
        return {name: Figure(tuple(values)) for name, values in taken.items()}

    def _settle(self) -> None:
        """
        Waits for deletions and write-back, so that they do not slow the next run, and
        touches memory that the machine has given back to its host. In a smoke test it
        does nothing.
        """
        if self._benchmark.disabled:
            return
        os.sync()
        if self._touched:
            touch_memory(self._touched)
