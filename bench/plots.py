"""
The plots of ``make bench``: throughput by batch size, and the cost of an append.

Usage: plots.py POINTS FOLDER
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

Points = dict[str, dict[str, float]]

_INK = "#1f2933"
_MUTED = "#66717d"
_GRID = "#e4e8ec"

# Strong colours for pystore; weak colours and different markers for rivals.
_LINES: dict[str, tuple[str, str, str]] = {
    "columns": ("pystore append_columns", "#0b5fa5", "o"),
    "batch": ("pystore append_batch", "#1a9ba1", "s"),
    "single": ("pystore append", "#7048b6", "D"),
    "writev": ("os.writev", "#8a949e", "^"),
    "write": ("os.write", "#b4bcc4", "v"),
    "lmdb": ("LMDB append", "#c98a2b", "P"),
    "rocksdb": ("RocksDB", "#b5533c", "X"),
    "sqlite-wal": ("SQLite WAL", "#8c7a5b", "*"),
    "fdatasync": ("writev + fdatasync each", "#d08770", "<"),
}

_PARTS = {
    "copy": ("copy the body", "#9cc4e4"),
    "checksum": ("checksum", "#0b5fa5"),
    "encode": ("encode", "#1a9ba1"),
    "system call": ("system call", "#e0a030"),
    "rest": ("checks, queues, Python", "#b9b3d6"),
}


def _style() -> None:
    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "text.color": _INK,
            "axes.edgecolor": _GRID,
            "axes.labelcolor": _MUTED,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "xtick.color": _MUTED,
            "ytick.color": _MUTED,
            "svg.hashsalt": "pystore",
            "svg.fonttype": "none",
        }
    )


def _spread(places: list[float], gap: float) -> list[float]:
    """
    Moves overlapping labels apart, each as little as possible.
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for _ in range(200):
        for below, above in pairwise(order):
            lack = gap - (moved[above] - moved[below])
            if lack > 0:
                moved[below] -= lack / 2
                moved[above] += lack / 2
    return moved


def _label_ends(axes: Axes, ends: list[tuple[str, str, float]]) -> None:
    """
    Names each line at its right end, instead of a legend.
    """
    to_axes = axes.transAxes.inverted()
    raw = [to_axes.transform(axes.transData.transform((1, y)))[1] for _, _, y in ends]
    places = _spread(raw, 0.05)
    for (name, color, _), end, place in zip(ends, raw, places, strict=True):
        axes.annotate(
            name,
            (1.0, end),
            (1.05, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=color,
            va="center",
            fontsize=9,
            fontweight="bold" if name.startswith("pystore") else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.7,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def draw_throughput(points: Points, limits: Points, machine: str) -> Figure:
    """
    Draw MB/s of bodies against records in a batch.
    """
    figure, axes = plt.subplots(figsize=(9.6, 5.6))
    figure.subplots_adjust(left=0.08, right=0.74, top=0.86, bottom=0.13)
    ends = []
    for key, (name, color, marker) in _LINES.items():
        line = {int(at): rate for at, rate in points.get(key, {}).items()}
        if not line:
            continue
        ours = name.startswith("pystore")
        axes.plot(
            list(line),
            list(line.values()),
            color=color,
            marker=marker,
            markersize=6 if ours else 5,
            linewidth=2.4 if ours else 1.3,
            zorder=3 if ours else 2,
        )
        ends.append((name, color, line[max(line)]))
    for name, limit in limits.items():
        rate = next(iter(limit.values()))
        dots = (0, (1, 2)) if name == "bare loop" else (0, (5, 3))
        axes.axhline(rate, color=_INK, linewidth=1, linestyle=dots, zorder=1)
        ends.append((f"limit: {name}", _INK, rate))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({int(at) for line in points.values() for at in line})
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,.0f}"))
    axes.grid(axis="y", color=_GRID)
    axes.tick_params(which="both", length=0)
    axes.set_xlabel("records in one append, 1 KiB bodies")
    axes.set_ylabel("MB of bodies per second, until durable")
    _label_ends(axes, ends)
    _title(figure, "Throughput grows with the batch", machine)
    return figure


def draw_cost(points: Points, machine: str) -> Figure:
    """
    Draw the parts of an append of one record, for each of the ways.
    """
    figure, axes = plt.subplots(figsize=(9.6, 3.9))
    figure.subplots_adjust(left=0.17, right=0.97, top=0.72, bottom=0.15)
    ways = list(reversed(points))
    most = max(sum(split.values()) for split in points.values())
    starts = [0.0] * len(ways)
    for part, (name, color) in _PARTS.items():
        sizes = [points[way][part] for way in ways]
        axes.barh(ways, sizes, left=starts, color=color, label=name, height=0.56)
        for row, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            if size > most * 0.035:
                is_dark = part in ("checksum", "encode")
                axes.text(
                    start + size / 2,
                    row,
                    f"{size:,.0f}",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color="white" if is_dark else _INK,
                )
        starts = [start + size for start, size in zip(starts, sizes, strict=True)]
    for row, total in enumerate(starts):
        axes.text(
            total + most * 0.008,
            row,
            f"{total:,.0f} ns",
            va="center",
            fontweight="bold",
        )
    axes.set_xlim(0, most * 1.11)
    axes.grid(axis="x", color=_GRID)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.tick_params(axis="y", labelcolor=_INK)
    axes.set_xlabel("ns per record of 1 KiB, into the page cache")
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=len(_PARTS),
        frameon=False,
        handlelength=1,
        columnspacing=1.4,
        fontsize=9,
    )
    _title(figure, "Where the time of one record goes", machine)
    return figure


def _title(figure: Figure, title: str, machine: str) -> None:
    height = figure.get_figheight()
    figure.text(0.02, 1 - 0.33 / height, title, fontsize=14, fontweight="bold")
    figure.text(0.02, 1 - 0.57 / height, machine, fontsize=8.5, color=_MUTED)


def main() -> None:
    """
    Draw both, as PNG and SVG.
    """
    whole: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    points = whole["points"]
    machine = whole["machine"]
    about = (
        f"{machine['machine'].rsplit(', load', 1)[0]}, Linux {machine['kernel']}, "
        f"{machine['file system'].split()[0]}, commit {machine['commit']}"
    )
    _style()
    drawn = {}
    if "throughput" in points:
        limits = points.get("limits", {})
        drawn["throughput"] = draw_throughput(points["throughput"], limits, about)
    if "cost" in points:
        drawn["cost"] = draw_cost(points["cost"], about)
    for name, figure in drawn.items():
        figure.savefig(folder / f"{name}.png", dpi=160)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
