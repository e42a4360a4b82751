"""
An export killed by SIGKILL before each of its steps on the file system, one run after
another, while the store grows.
"""

from __future__ import annotations

from pathlib import Path

from crash.exporting import Exporter
from lib.spark.exports import Growing, export_here, visible

from pystore.spark.export.publish import last_commit


def test_a_killed_export_shows_each_record_once_at_every_step(memory: Path) -> None:
    """
    What a plain reader sees is what the newest run vouches for: at once after the
    kill, and when it has run again.
    """
    store, into = Growing.new(memory / "store", 40), memory / "out"
    into.mkdir()
    step, is_done = 0, False
    with Exporter(store.root, into) as exporter:
        while not is_done:
            is_done = exporter.run_until(step)
            last = last_commit(into)
            below = last.positions[str(store.root)].offset if last else 0
            assert [one for one in store.records if one[1] < below] == [
                (row["topic"], row["offset"], row["body"]) for row in visible(into)
            ], f"killed before step {step}"
            step += 1
            store.grow(7)

    assert step > 30
    export_here(store.root, into)
    assert store.offsets == [row["offset"] for row in visible(into)]
    assert ["_export"] == [
        path.name for path in into.iterdir() if not path.name.startswith("run=")
    ]
