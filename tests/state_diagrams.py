"""
The diagrams and tables of docs/replication.md, made from the tables of the machine.

Run ``python tests/state_diagrams.py`` after a change of the machine; a test
compares.
"""

from __future__ import annotations

from pathlib import Path

from pystore.ha.codes import State
from pystore.ha.machine import MASTER, SLAVE, Event, Table

__all__ = ["PAGE", "drawn"]

PAGE = Path(__file__).parents[1] / "docs" / "replication.md"


def drawn(text: str) -> str:
    """
    Returns the text of the page with both roles as the machine has them.
    """
    for name, table in (("slave", SLAVE), ("master", MASTER)):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"the page has no place for the {name}")
        text = before + begin + _diagram(table) + "\n" + _rows(table) + end + after
    return text


def _diagram(table: Table) -> str:
    ways: dict[tuple[State, State], list[str]] = {}
    for (state, event), following in table.items():
        if state != following:
            ways.setdefault((state, following), []).append(event.value)
    lines = [
        f"    {state.name} --> {following.name}: {', '.join(events)}"
        for (state, following), events in sorted(ways.items())
    ]
    body = "\n".join(("    [*] --> READY", *lines, "    SHUTDOWN --> [*]"))
    return f"```mermaid\nstateDiagram-v2\n{body}\n```\n"


def _rows(table: Table) -> str:
    live = [state for state in State if state != State.SHUTDOWN]
    rows = ["| event | " + " | ".join(state.name for state in live) + " |"]
    rows.append("|---" * (len(live) + 1) + "|")
    for event in Event:
        cells = [_cell(table, state, event) for state in live]
        if any(cells):
            rows.append(f"| {event.value} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _cell(table: Table, state: State, event: Event) -> str:
    following = table.get((state, event))
    if following is None:
        return ""
    return "stays" if following == state else following.name


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
