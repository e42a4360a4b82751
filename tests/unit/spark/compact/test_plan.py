"""
The input of a compaction.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.oracle.golden_data import GoldenStore
from lib.spark.compaction import CHOICE, make_store
from lib.store.logs import SEGMENT_SIZE, make_root, open_log

from pystore.core.log_writer import LogHandle
from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import NotAStoreError
from pystore.fs.layout import CHECKPOINT, EPOCH_FILE
from pystore.message.message import Message
from pystore.rocketmq.checkpoint_file import CheckpointTimes
from pystore.spark.compact.plan import CompactionPlan, is_unchanged, make_plan
from pystore.store.commit_log import CommitLog


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store of several segments.
    """
    return make_store(tmp_path, records=600)


def append(log: LogHandle, count: int) -> list[int]:
    """
    Appends records, and returns their ends.
    """
    return [log.append(Message("T", b"x", keys="k").form).end for _ in range(count)]


def test_a_plan_reads_every_segment_up_to_the_end(root: Path) -> None:
    """
    There is one split for each.
    """
    plan = make_plan(root, CHOICE)

    splits = plan.splits()
    assert [split.base for split in splits] == list(range(0, plan.end, SEGMENT_SIZE))
    assert plan.end == splits[-1].limit == splits[-1].to_offset
    assert plan.end == plan.input_bytes
    assert is_unchanged(plan)


def test_a_plan_is_read_as_it_was_written(root: Path) -> None:
    """
    It keeps its id.
    """
    plan = make_plan(root, CHOICE)

    again = CompactionPlan.parse(plan.text())

    assert plan == again
    assert plan.id == again.id


def test_a_golden_store_of_java_can_be_planned(
    golden_root: Path, golden_store: GoldenStore
) -> None:
    """
    Up to its last record.
    """
    plan = make_plan(golden_root, CHOICE)

    records = golden_store.records
    assert plan.end >= (records[-1]["offset"] + records[-1]["size"] if records else 0)


def test_a_plan_is_valid_while_the_log_only_grows(tmp_path: Path) -> None:
    """
    After a cut it is invalid, with or without new records.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        ends = append(log, 20)
        plan = make_plan(root, CHOICE)
        append(log, 20)
        assert is_unchanged(plan)
        assert ends[-1] == plan.end
    with open_log(root) as log:
        append(log, 3)
        assert not is_unchanged(plan)
        append(log, 60)
        assert not is_unchanged(plan)


def test_a_plan_is_invalid_without_its_segments(root: Path) -> None:
    """
    Retention deleted the first one, or the whole store is missing.
    """
    plan = make_plan(root, CHOICE)

    (root / "commitlog" / f"{0:020d}").unlink()

    assert not is_unchanged(plan)


def test_an_empty_store_has_an_empty_plan(tmp_path: Path) -> None:
    """
    The plan is valid.
    """
    root = make_root(tmp_path)
    with open_log(root):
        pass

    plan = make_plan(root, CHOICE)

    assert ([], 0) == (plan.splits(), plan.input_bytes)
    assert is_unchanged(plan)


def test_a_member_of_a_set_is_read_up_to_the_confirm_offset(tmp_path: Path) -> None:
    """
    It has epochs. Its checkpoint has the confirm offset, which is rounded down to the
    end of a record. A store without epochs is read to its end.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        ends = append(log, 20)
    times = CheckpointTimes(0, 0, 0, 0, ends[7] + 5)
    (root / CHECKPOINT).write_bytes(times.encode())
    assert ends[-1] == make_plan(root, CHOICE).end

    (root / EPOCH_FILE).write_bytes(encode_epochs(EpochTable.of([(1, 0)])))

    assert ends[7] == make_plan(root, CHOICE).end


def test_the_live_page_has_the_confirm_offset(tmp_path: Path) -> None:
    """
    While a store is written.
    """
    with CommitLog(tmp_path / "store") as log:
        ends = [log.append(Message("T", b"x", keys="k")).end for _ in range(9)]
        assert ends[-1] == make_plan(tmp_path / "store", CHOICE).end

        log.writer.log.confirm(ends[4])

        assert ends[4] == make_plan(tmp_path / "store", CHOICE).end


def test_a_path_without_a_store_is_an_error(tmp_path: Path) -> None:
    """
    The error names the path.
    """
    with pytest.raises(NotAStoreError, match="no such directory"):
        make_plan(tmp_path / "nothing", CHOICE)
