"""
The published compaction store.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lib.spark.compaction import CHOICE, LocalJobs, latest, make_store, queue_records

from pystore.errors import InvalidError
from pystore.spark.compact.checkpoint import CompactionWork, begin_work
from pystore.spark.compact.layout import QueueLayout, parse_layout
from pystore.spark.compact.output import finish_output, manifest_of, prepare_output
from pystore.spark.compact.plan import make_plan


@pytest.fixture
def work(tmp_path: Path) -> CompactionWork:
    """
    Work that is copied, and not published.
    """
    (tmp_path / "out").mkdir()
    work = begin_work(
        tmp_path / "out", make_plan(make_store(tmp_path, records=400), CHOICE)
    )
    texts = LocalJobs().lay_out(work)
    layouts = [one for one in map(parse_layout, texts) if isinstance(one, QueueLayout)]
    work.save_layouts(layouts)
    prepare_output(work, layouts)
    LocalJobs().copy(work, layouts, ())
    return work


def test_the_result_appears_complete(work: CompactionWork, tmp_path: Path) -> None:
    """
    The unfinished work is removed.
    """
    into = tmp_path / "out"
    assert manifest_of(into) is None
    layouts = work.layouts() or []

    finish_output(work, layouts, into)

    assert ["compaction"] == [path.name for path in into.iterdir()]
    assert {
        "compactionCq",
        "compactionLog",
        "logs",
        "manifest.json",
        "position-checkpoint",
    } == {path.name for path in (into / "compaction").iterdir()}
    found = manifest_of(into)
    assert found is not None
    plan, texts = found
    assert work.plan == plan
    assert layouts == [parse_layout(text) for text in texts]


def test_the_directory_can_be_moved(work: CompactionWork, tmp_path: Path) -> None:
    """
    For example into the store of a broker: its links are relative.
    """
    finish_output(work, work.layouts() or [], tmp_path / "out")
    (tmp_path / "broker").mkdir()

    (tmp_path / "out" / "compaction").rename(tmp_path / "broker" / "compaction")

    found = queue_records(tmp_path / "broker")
    assert {name: len(records) for name, records in found.items()} == {
        name: len(records) for name, records in latest(Path(work.plan.store)).items()
    }


def test_a_directory_of_another_program_is_refused(tmp_path: Path) -> None:
    """
    It may be a broker's own.
    """
    (tmp_path / "compaction").mkdir()
    for content in (None, "no json", json.dumps({"plan": {}})):
        if content is not None:
            (tmp_path / "compaction" / "manifest.json").write_text(content)
        with pytest.raises(InvalidError, match="not made by this command"):
            manifest_of(tmp_path)
