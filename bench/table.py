"""
The table at the end: each promise, the measured value, and whether it is met.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contest import Figure

__all__ = ["Row", "Table"]

_MET = {True: "yes", False: "NO", None: ""}


@dataclass(frozen=True)
class Row:
    """
    One promise.

    Attributes:
        what: the measured thing.
        bound: the promise.
        measured: median and spread.
        absolute: the values behind it.
        is_met: whether the median keeps the promise; ``None``: there is none.
    """

    what: str
    bound: str
    measured: str
    absolute: str
    is_met: bool | None


@dataclass
class Table:
    """
    The rows of a run, and the points of its plots.
    """

    rows: list[Row] = field(default_factory=list)
    points: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def at_least(
        self, what: str, least: float, figure: Figure, absolute: Mapping[str, str]
    ) -> None:
        """
        Add a promise that a ratio is not below *least*.
        """
        style = _percent if least < 2 else _times
        measured = f"{style(figure.median)} ({_span(figure, style)})"
        self._add(what, style(least), measured, absolute, figure.median >= least)

    def at_most(
        self,
        what: str,
        most: float,
        figure: Figure,
        unit: str,
        absolute: Mapping[str, str],
    ) -> None:
        """
        Add a promise that a value is not above *most*.
        """

        def style(value: float) -> str:
            return f"{value:.3g}"

        measured = f"{style(figure.median)} ({_span(figure, style)}) {unit}"
        bound = f"at most {most:g} {unit}"
        self._add(what, bound, measured, absolute, figure.median <= most)

    def note(self, what: str, figure: Figure, absolute: Mapping[str, str]) -> None:
        """
        Add a ratio without a promise.
        """
        measured = f"{_percent(figure.median)} ({_span(figure, _percent)})"
        self._add(what, "", measured, absolute, None)

    def _add(
        self,
        what: str,
        bound: str,
        measured: str,
        absolute: Mapping[str, str],
        is_met: bool | None,
    ) -> None:
        values = "; ".join(f"{name} {value}" for name, value in absolute.items())
        self.rows.append(Row(what, bound, measured, values, is_met))

    def point(self, plot: str, line: str, at: object, value: float) -> None:
        """
        Add a point to a line of a plot.
        """
        self.points.setdefault(plot, {}).setdefault(line, {})[str(at)] = value

    def render(self, machine: Mapping[str, str]) -> str:
        """
        The table in Markdown, with the machine below it.
        """
        lines = [
            "| what | at least | measured: median (least to most) | values | met |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {row.what} | {row.bound} | {row.measured} | {row.absolute} | "
            f"{_MET[row.is_met]} |"
            for row in self.rows
        ]
        lines += ["", *(f"{name}: {value}" for name, value in machine.items())]
        return "\n".join(lines)

    def save(self, path: Path, machine: Mapping[str, str]) -> None:
        """
        Write the points, for the plots.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {"machine": dict(machine), "points": self.points}
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def _times(value: float) -> str:
    return f"{value:.1f} times"


def _span(figure: Figure, style: object) -> str:
    assert callable(style)
    return f"{style(figure.least)} to {style(figure.most)}"
