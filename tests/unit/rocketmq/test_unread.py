"""
What another version of RocketMQ leaves in a store is named, and never damage.
"""

from __future__ import annotations

from pathlib import Path

from pystore.rocketmq.unread import unread_parts


def test_parts_that_pystore_does_not_read_are_named(tmp_path: Path) -> None:
    """
    RocksDB, extensions, the timer wheel, and unknown fields of the checkpoint.
    """
    for name in ("consumequeue_ext/T/0", "rocksdbstore/db", "consumequeue/T"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "consumequeue" / "CURRENT").write_text("MANIFEST-000005")
    (tmp_path / "timerwheel").write_bytes(bytes(100))
    (tmp_path / "checkpoint").write_bytes(bytes(100) + b"new" + bytes(3993))

    found = [part.split(":")[0] for part in unread_parts(tmp_path)]

    checkpoint = "bytes 100 to 103 of checkpoint are fields of another version of"
    assert [
        "consumequeue_ext",
        "timerwheel",
        "rocksdbstore",
        "consumequeue",
    ] == found[:4]
    assert found[4].startswith(checkpoint)


def test_a_usual_store_has_nothing_unread(tmp_path: Path) -> None:
    """
    Empty folders count as nothing.
    """
    (tmp_path / "consumequeue" / "T" / "0").mkdir(parents=True)
    (tmp_path / "consumequeue_ext").mkdir()
    (tmp_path / "checkpoint").write_bytes(bytes(4096))

    assert [] == unread_parts(tmp_path)


def test_a_bad_checkpoint_is_no_error_here(tmp_path: Path) -> None:
    """
    The opening and verify report it.
    """
    (tmp_path / "checkpoint").write_bytes(b"short")

    assert [] == unread_parts(tmp_path)
