"""
One record in memory is checked as a scan checks it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.oracle.golden_data import GoldenStore
from lib.store.logs import make_root, open_log

from pystore.bindings.ffi import Check, Proof, Stop
from pystore.core import scan
from pystore.core.log_reader import LogReader
from pystore.core.scan import check_record
from pystore.errors import CorruptError
from pystore.message.message import Message

ALL = Check.BODY | Check.PROPERTY | Check.OFFSET


def _record(tmp_path: Path) -> bytes:
    with open_log(make_root(tmp_path)) as log:
        log.append(Message("T", b"body", tags="A").form)
        return log.read(0).data


def test_a_checked_record_equals_the_read_one(tmp_path: Path) -> None:
    """
    Bytes after the record do not count.
    """
    data = _record(tmp_path)

    for given in (data, data + b"more", memoryview(data + b"more")):
        record = check_record(given, 0, ALL)
        assert data == record.data
        assert ("T", b"body", "A") == (record.topic, record.body, record.tags)
        wanted = Proof.BODY | Proof.PROPERTY | Proof.HAS_PROPERTY
        assert wanted == Proof(record.proof)


def test_every_flipped_byte_is_seen(tmp_path: Path) -> None:
    """
    With a property CRC no byte of a record can change unnoticed.
    """
    data = _record(tmp_path)

    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x41
        with pytest.raises(CorruptError):
            check_record(bytes(broken), 0, ALL | Check.NEED_PROPERTY)


def test_a_record_elsewhere_is_refused_with_its_place(tmp_path: Path) -> None:
    """
    The embedded offset is compared with the one given.
    """
    with pytest.raises(CorruptError) as raised:
        check_record(_record(tmp_path), 4096, Check.OFFSET)

    assert 4096 == raised.value.offset


def test_a_scan_runs_in_steps_that_signals_can_interrupt(
    golden_store: GoldenStore, golden_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Steps of any size find the same records, also if one is longer than a step.
    """
    with LogReader(golden_root) as reader:
        start = golden_store.expected["minPhyOffset"]
        whole = reader.scan(start, checks=ALL).finish()
        for step in (1, 1000, 70_000):
            monkeypatch.setattr(scan, "_STEP_BYTES", step)
            assert whole == reader.scan(start, checks=ALL).finish()
        assert Stop.LIMIT != whole.stop or whole.offset == reader.ends().published_end
