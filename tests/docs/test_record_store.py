"""
docs/record-store.md names the existing tests and operations.
"""

from __future__ import annotations

import re
from pathlib import Path

from pystore.records.record_store import RecordStore

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "record-store.md").read_text(encoding="utf-8")


def test_each_trap_names_an_existing_test() -> None:
    """
    A renamed test is renamed on the page, too.
    """
    named = re.findall(r"`(test_\w+)`", PAGE)
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in [
            *(ROOT / "tests" / "unit" / "records").glob("test_*.py"),
            ROOT / "tests" / "interop" / "test_record_store.py",
        ]
    )

    assert len(named) > 10
    assert [] == [name for name in named if f"def {name}(" not in sources]


def test_the_page_lists_the_six_operations() -> None:
    """
    Those of the interface, and no other; its attribute comes after them.
    """
    table = PAGE.split("## Six operations")[1].split("\n\n")[1]
    public = {name: it for name, it in vars(RecordStore).items() if name[0] != "_"}
    operations = {name for name, it in public.items() if callable(it)}
    assert {"reads_locally"} == public.keys() - operations
    assert "`reads_locally`" in PAGE

    assert operations == set(re.findall(r"^\| `(\w+)\(", table, re.M))
