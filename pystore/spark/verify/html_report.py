"""
A round as one HTML page: a picture of segments and replicas, and the findings.

The page has no script and no font and needs no network. It follows the reader's choice
of light or dark colours. Patterns distinguish the verdicts as well as colours.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template

from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.summary import is_bad, is_unfinished
from pystore.spark.verify.verdicts import GOOD, SegmentVerdict, Verdict
from pystore.text import size_text

__all__ = ["COLUMNS_MAX", "render_report"]

COLUMNS_MAX = 80
"""Columns of a picture, which fit into a window of 1,200 pixels. With more segments,
several of them share a column."""

_ROWS_MAX = 500
_COMMANDS_MAX = 20
_NUMBERS = ("segment", "blocks", "records", "checked")
_TEMPLATE = Path(__file__).with_name("report.html")
_WORST = (
    Verdict.CORRUPT,
    Verdict.DIVERGENT,
    Verdict.ABSENT,
    Verdict.UNKNOWN,
    Verdict.ORPHAN,
    Verdict.SAMPLED,
    Verdict.UNSEALED,
    Verdict.OK,
)
_MEANINGS = {
    Verdict.OK: "agrees with a seal or a replica",
    Verdict.SAMPLED: "nothing is wrong in the blocks that were read",
    Verdict.UNSEALED: "valid, but no seal and no replica to compare with",
    Verdict.ABSENT: "missing (red edge: it should be here)",
    Verdict.CORRUPT: "bytes differ from what was written",
    Verdict.DIVERGENT: "belongs to another log than the replicas",
    Verdict.ORPHAN: "belongs to no log",
    Verdict.UNKNOWN: "could not be checked",
}


def render_report(found: VerifyRun) -> str:
    """
    Returns the page.
    """
    time = datetime.fromtimestamp(found.began, UTC)
    groups = sorted({one.group for one in found.verdicts})
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        number=found.number,
        headline=_headline(found),
        time=time.strftime("%Y-%m-%d %H:%M:%S"),
        figures=_figures(found),
        legend=_legend(found.verdicts),
        pictures="\n".join(_picture(found, group) for group in groups),
        findings=_findings(found),
        stores=_stores(found),
    )


def _headline(found: VerifyRun) -> str:
    bad = sum(one.is_bad for one in found.verdicts)
    if is_bad(found):
        return f"{bad} finding{'s' if bad > 1 else ''}: an operator has to act"
    if is_unfinished(found):
        return "No damage was found, but some segments could not be checked"
    return "No segment is damaged"


def _figures(found: VerifyRun) -> str:
    total = sum(one.checked_bytes for one in _of_round(found))
    rate = f"{size_text(total / found.seconds)}/s" if found.seconds else "-"
    pairs = {
        "stores": f"{len(found.stores):,}",
        "segments": f"{sum(one.segment is not None for one in found.verdicts):,}",
        "records": f"{sum(one.records for one in _of_round(found)):,}",
        "checked": size_text(total),
        "in": f"{found.seconds:.1f} s",
        "at": rate,
    }
    if uncovered := sum(one.uncovered_bytes for one in found.verdicts):
        pairs["without a checksum"] = size_text(uncovered)
    return "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in pairs.items())


def _of_round(found: VerifyRun) -> list[SegmentVerdict]:
    return [one for one in found.verdicts if one.round in (None, found.number)]


def _legend(verdicts: Iterable[SegmentVerdict]) -> str:
    counts = Counter(one.verdict for one in verdicts)
    return "".join(
        f'<li><i class="{word}"></i>{word} <b>{counts[word]:,}</b> '
        f'<span class="soft">{escape(_MEANINGS[word])}</span></li>'
        for word in Verdict
        if counts[word]
    )


def _picture(found: VerifyRun, group: str) -> str:
    """
    One line for each store of a group, one column for each segment.
    """
    mine = [one for one in found.verdicts if one.group == group]
    bases = sorted({one.segment for one in mine if one.segment is not None})
    if not bases:
        return ""
    share = -(-len(bases) // COLUMNS_MAX)
    columns = [bases[at : at + share] for at in range(0, len(bases), share)]
    stores = sorted({one.store for one in mine})
    style = (
        f"grid-template-columns: max-content 1rem "
        f"repeat({len(columns)}, minmax(6px, 1fr))"
    )
    cells = []
    for store in stores:
        own = [one for one in mine if one.store == store]
        # A segment may have rows about its queues and epochs, too.
        here: dict[int | None, list[SegmentVerdict]] = {}
        for one in own:
            here.setdefault(one.segment, []).append(one)
        name = escape(_short(store, stores))
        cells.append(f'<div class="name" title="{escape(store)}">{name}</div>')
        cells.append(_cell(own, "whole"))
        cells += [
            _cell([one for base in column for one in here.get(base, ())])
            for column in columns
        ]
    cells.append('<div class="name"></div><div></div>' + _axis(len(columns), bases))
    each = f", {share} to a column" if share > 1 else ""
    title = f"{escape(group)}: {len(bases):,} segments{each}"
    return (
        f'<h2>{title}</h2><div class="picture"><div class="grid" style="{style}">'
        f"{''.join(cells)}</div></div>"
    )


def _short(store: str, stores: Sequence[str]) -> str:
    """
    The part of a root that differs from the other roots.
    """
    shared = os.path.commonpath(stores) if len(stores) > 1 else os.path.dirname(store)
    return os.path.relpath(store, shared)


def _axis(columns: int, bases: Sequence[int]) -> str:
    """
    The first and the last offset below the columns.
    """
    half = max(1, columns // 2)
    text = f'<div class="axis" style="grid-column: 3 / span {half}">{bases[0]:,}</div>'
    if columns > 1:
        style = f"grid-column: {3 + half} / -1"
        text += f'<div class="axis right" style="{style}">{bases[-1]:,}</div>'
    return text


def _worst_of(verdicts: Iterable[SegmentVerdict]) -> SegmentVerdict:
    return min(verdicts, key=lambda one: (not one.is_bad, _WORST.index(one.verdict)))


def _cell(verdicts: Sequence[SegmentVerdict], kind: str = "cell") -> str:
    """
    The worst of some verdicts: on the segments of a column, or on a whole store.
    """
    if not verdicts:
        return f'<div class="{kind}"></div>'
    worst = _worst_of(verdicts)
    where = "the store" if worst.segment is None else f"{worst.segment:,}"
    title = f"{where}: {worst.verdict}"
    if len(verdicts) > 1:
        title += f" (the worst of {len(verdicts)})"
    if worst.evidence:
        title += f": {worst.evidence[0]}"
    bad = " bad" if worst.is_bad else ""
    return f'<div class="{kind} {worst.verdict}{bad}" title="{escape(title)}"></div>'


def _findings(found: VerifyRun) -> str:
    findings = [one for one in found.verdicts if one.is_bad or one.verdict not in GOOD]
    if not findings:
        return '<p class="soft">Nothing.</p>'
    findings.sort(key=lambda one: (not one.is_bad, _WORST.index(one.verdict)))
    rows = [_finding(one) for one in findings[:_ROWS_MAX]]
    page = _table(("verdict", "store", "segment", "blocks", "evidence"), rows)
    page += _advice(sorted({one.store for one in findings if one.is_bad}))
    more = len(findings) - _ROWS_MAX
    if more > 0:
        page += f'<p class="soft">{more:,} more are in the Parquet rows.</p>'
    return page


def _advice(stores: Sequence[str]) -> str:
    """
    The commands that show what heals the stores.
    """
    if not stores:
        return ""
    shown = stores[:_COMMANDS_MAX]
    lines = "<br>".join(
        f"<code>pystore doctor {escape(shlex.quote(root))}</code>" for root in shown
    )
    more = len(stores) - len(shown)
    rest = f"<br>and {more:,} more" if more else ""
    return (
        "<p>What heals a store, in the order of loss; with "
        "<code>--replica ROOT</code> from another copy:</p>"
        f"<p>{lines}{rest}</p>"
    )


def _table(head: Sequence[str], rows: Iterable[str]) -> str:
    names = "".join(
        f'<th class="number">{name}</th>' if name in _NUMBERS else f"<th>{name}</th>"
        for name in head
    )
    lines = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="table"><table><tr>{names}</tr>{lines}</table></div>'


def _finding(one: SegmentVerdict) -> str:
    where = one.name or ("" if one.segment is None else f"{one.segment:,}")
    blocks = ", ".join(map(str, one.blocks[:8])) + (
        " ..." if len(one.blocks) > 8 else ""
    )
    evidence = "<br>".join(escape(line) for line in one.evidence[:5])
    bad = " bad" if one.is_bad else ""
    word = f'<i class="{one.verdict}{bad}"></i>{one.verdict}'
    return (
        f'<td><span class="word">{word}</span></td>'
        f'<td class="mono">{escape(one.store)}</td>'
        f'<td class="number">{escape(where) or "the store"}</td>'
        f'<td class="number">{blocks}</td><td>{evidence}</td>'
    )


def _stores(found: VerifyRun) -> str:
    rows = []
    for root in found.stores:
        mine = [one for one in found.verdicts if one.store == root]
        counts = Counter(str(one.verdict) for one in mine)
        words = (f"{counts[word]:,} {word}" for word in Verdict if counts[word])
        group = mine[0].group if mine else ""
        worst = _worst_of(mine) if mine else None
        bad = " bad" if worst and worst.is_bad else ""
        word = f'<i class="{worst.verdict}{bad}"></i>{worst.verdict}' if worst else ""
        rows.append(
            f'<td><span class="word">{word}</span></td>'
            f'<td class="mono">{escape(root)}</td><td class="mono">{escape(group)}</td>'
            f"<td>{', '.join(words) or 'no segments'}</td>"
            f'<td class="number">{sum(one.records for one in mine):,}</td>'
            f'<td class="number">{size_text(sum(o.checked_bytes for o in mine))}</td>'
        )
    return _table(("worst", "store", "group", "verdicts", "records", "checked"), rows)
