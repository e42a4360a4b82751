"""
Columns made without the core equal those of one record at a time.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.logs import make_root, open_log

from pystore.core.log_reader import LogReader
from pystore.message.message import Message
from pystore.message.properties import KEYS, TAGS, UNIQUE_KEY, parse_properties
from pystore.spark.scan.python_columns import PythonColumns

COUNT = 12


@pytest.mark.parametrize("step", [1, 2, 5])
def test_columns_equal_those_of_one_record_at_a_time(tmp_path: Path, step: int) -> None:
    """
    IPv4 and IPv6 hosts, missing properties, and rows left out.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        for number in range(COUNT):
            born = "[::1]:1" if number % 2 else f"10.0.0.{number}:2"
            keys = f"key{number}" if number % 3 else None
            body = bytes([number]) * number
            log.append(Message("T", body, keys=keys, tags="t", born_host=born).form)
    with LogReader(root) as log:
        (rows,) = log.scan(0)
        rows = rows[1::step]
        first, last = rows[0], rows[-1]
        records = [log.read(int(offset)) for offset in rows["offset"]]
        size = int(last["offset"] + last["size"] - first["offset"])
        data = log.acquire(int(first["offset"]), size)

        columns = PythonColumns(rows, data, frozenset())

        maps = [dict(one) for one in columns.maps().to_pylist()]
        raws = [
            bytes(data[at : at + int(row["properties_size"])])
            for row in rows
            for at in [int(row["offset"] - first["offset"] + row["properties_at"])]
        ]
        assert [record.body for record in records] == columns.bodies().to_pylist()
        assert [one.born_host for one in records] == columns.born_hosts().to_pylist()
        assert [one.store_host for one in records] == columns.store_hosts().to_pylist()
        assert [one.msg_id for one in records] == columns.ids().to_pylist()
        assert [parse_properties(raw) for raw in raws] == maps
        for name in (KEYS, TAGS, UNIQUE_KEY):
            assert [one.get(name) for one in maps] == columns.named(name).to_pylist()
