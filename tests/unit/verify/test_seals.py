"""
A sealed segment equals its seal, or the differing block is reported.
"""

from __future__ import annotations

from pathlib import Path

from pystore.epochs.table import EpochTable
from pystore.message.columns import gather_columns
from pystore.seals import make_seal, seal_name, write_seal
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

SEGMENT = 32768


def sealed_store(root: Path) -> None:
    """
    Writes a store and seals its first segment.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.append_columns(gather_columns("topic", [b"body" * 100] * 100))
        seal = make_seal(
            [block.view for block in log.blocks(0, SEGMENT)],
            group="group",
            start_offset=0,
            record_count=1,
            first_store_ms=1,
            last_store_ms=1,
            epochs=EpochTable(),
        )
    write_seal(root / "meta" / "seals", seal, root / "meta" / "tmp")


def test_a_matching_seal_is_counted(tmp_path: Path) -> None:
    """
    Every byte of the segment was compared.
    """
    sealed_store(tmp_path / "s")
    report = verify_store(tmp_path / "s")

    assert ("whole", 1) == (report.verdict, report.seals)


def test_a_change_outside_of_records_breaks_the_seal(tmp_path: Path) -> None:
    """
    The filler of a blank record belongs to no record, but it was sealed.
    """
    root = tmp_path / "s"
    sealed_store(root)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(SEGMENT - 1)
        file.write(b"X")
    report = verify_store(root)

    (damage,) = report.damages
    assert (str(root / "commitlog" / f"{0:020d}"), 0) == (damage.path, damage.offset)
    assert "differ from the sealed bytes" in damage.reason


def test_an_unreadable_seal_is_damage(tmp_path: Path) -> None:
    """
    Its own digest is wrong.
    """
    root = tmp_path / "s"
    sealed_store(root)
    path = root / "meta" / "seals" / seal_name(0)
    path.write_bytes(path.read_bytes()[:-1])

    assert [str(path)] == [damage.path for damage in verify_store(root).damages]


def test_a_file_name_that_is_not_a_seal_is_damage(tmp_path: Path) -> None:
    """
    The names of the files identify the seals.
    """
    root = tmp_path / "s"
    sealed_store(root)
    (root / "meta" / "seals" / "other").write_text("x")

    (damage,) = verify_store(root).damages
    assert damage.path.endswith("other")


def test_the_seal_of_a_segment_that_a_cut_shortens_is_ignored(
    tmp_path: Path,
) -> None:
    """
    The next opening finishes the cut and removes the seal.
    """
    root = tmp_path / "s"
    sealed_store(root)
    with CommitLog(root) as log:
        handle = log.writer.log
        end = log.read(0).end
        handle.cut_begin(end)
        with log.writer.metastore.change() as change:
            state = change.intend_cut(end)
        handle.cut_publish(state.generation)

        try:
            report = verify_store(root)
        finally:
            handle.cut_apply()
            with log.writer.metastore.change() as change:
                change.finish_cut()
            handle.cut_end(is_done=True)
    assert ([], 0, end) == (report.damages, report.seals, report.end_offset)
