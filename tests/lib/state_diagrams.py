"""
The diagrams and tables of pages under docs/, made from the tables of the machines.

Run ``python tests/lib/state_diagrams.py`` after a change of a machine; tests compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pystore.controller.identity.negotiation import NEGOTIATION, NegotiationStep
from pystore.ha.role import ROLES, Role
from pystore.ha.wire.codes import State
from pystore.ha.wire.link_state import MASTER, SLAVE

__all__ = ["IDENTITY_PAGE", "PAGE", "drawn"]

Table = Mapping[Any, Enum]
"""(state, event) -> state; keys of a mapping are of one type only."""

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "replication.md"
IDENTITY_PAGE = DOCS / "identity.md"

TABLES: dict[Path, list[tuple[str, Table, Enum]]] = {
    PAGE: [
        ("slave", SLAVE, State.READY),
        ("master", MASTER, State.READY),
        ("role", ROLES, Role.IDLE),
    ],
    IDENTITY_PAGE: [("negotiation", NEGOTIATION, NegotiationStep.READ)],
}
"""Each table's name on its page, and where it begins; the last state is the end."""


def drawn(text: str, page: Path = PAGE) -> str:
    """
    Returns the text of a page with all tables as the machines have them.
    """
    for name, table, first in TABLES[page]:
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"the page has no place for the {name}")
        text = (
            before
            + begin
            + _diagram(table, first)
            + "\n"
            + _rows(table, first)
            + end
            + after
        )
    return text


def _diagram(table: Table, first: Enum) -> str:
    order = list(type(first))
    ways: dict[tuple[Enum, Enum], list[str]] = {}
    for (state, event), following in table.items():
        if state != following:
            ways.setdefault((state, following), []).append(event.value)
    lines = [
        f"    {state.name} --> {following.name}: {', '.join(events)}"
        for (state, following), events in sorted(
            ways.items(), key=lambda way: [order.index(state) for state in way[0]]
        )
    ]
    ends = f"    {order[-1].name} --> [*]"
    body = "\n".join((f"    [*] --> {first.name}", *lines, ends))
    return f"```mermaid\nstateDiagram-v2\n{body}\n```\n"


def _rows(table: Table, first: Enum) -> str:
    live = list(type(first))[:-1]
    events = type(next(iter(table))[1])
    rows = ["| event | " + " | ".join(state.name for state in live) + " |"]
    rows.append("|---" * (len(live) + 1) + "|")
    for event in events:
        cells = [_cell(table, state, event) for state in live]
        if any(cells):
            rows.append(f"| {event.value} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _cell(table: Table, state: Enum, event: Enum) -> str:
    following = table.get((state, event))
    if following is None:
        return ""
    return "stays" if following == state else following.name


if __name__ == "__main__":
    for one in TABLES:
        one.write_text(drawn(one.read_text(encoding="utf-8"), one), encoding="utf-8")
