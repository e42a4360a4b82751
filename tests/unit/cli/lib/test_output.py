"""
Pairs and tables for people.
"""

from __future__ import annotations

from pystore.cli.lib.output import pairs_text, table_text


def test_pairs_and_tables_stand_in_columns() -> None:
    """
    A value of several lines goes on below itself.
    """
    pairs = [("a", "1"), ("long", "2\n3")]

    assert "a     1\nlong  2\n      3" == pairs_text(pairs)
    assert "name  count\n----  -----\na         1\nb        10" == table_text(
        ("name", "count"), [("a", "1"), ("b", "10")]
    )
