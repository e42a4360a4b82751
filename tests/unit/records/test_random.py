"""
Random commits of several stores on every backend, against a model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.remoting.record_stores import BACKENDS

from pystore.records.ops import CheckVersion, Delete, Hold, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord

KEYS = ("a", "b", "b/c")  # of two spaces

checks = st.sampled_from(["none", "none", "current", "stale", "absent"])
writes = st.sampled_from(["none", "put", "put", "delete", "hold", "hold"])
commits = st.lists(
    st.tuples(st.sampled_from(KEYS), checks, writes),
    max_size=3,
    unique_by=lambda one: one[0],
)
steps = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(commits, commits, commits, st.none())),
    min_size=5,
    max_size=25,
)


@dataclass
class Model:
    """What the records must be, and every version there ever was."""

    rows: dict[str, tuple[bytes, int, int | None]] = field(default_factory=dict)
    versions: list[int] = field(default_factory=lambda: [0])

    def ops(self, wanted: list[tuple[str, str, str]], value: bytes) -> list[Op]:
        """The operations that a drawn commit stands for now."""
        ops: list[Op] = []
        for key, check, write in wanted:
            now = self.rows[key][1] if key in self.rows else 0
            old = next((one for one in reversed(self.versions) if one != now), 1)
            version = {"current": now, "stale": old, "absent": 0}.get(check)
            if version is not None:
                ops.append(CheckVersion(key, version))
            if write != "none":
                made: dict[str, Op] = {
                    "put": Put(key, value),
                    "delete": Delete(key),
                    "hold": Hold(key, value),
                }
                ops.append(made[write])
        return ops

    def allows(self, ops: list[Op], owner: int) -> bool:
        """Whether the commit must be made."""
        for op in ops:
            row = self.rows.get(op.key)
            if isinstance(op, CheckVersion) and op.version != (row[1] if row else 0):
                return False
            if isinstance(op, Hold) and row is not None and row[2] != owner:
                return False
        return True

    def apply(self, ops: list[Op], owner: int, version: int) -> None:
        """The commit was made."""
        changing = [
            op
            for op in ops
            if op.key in self.rows or isinstance(op, Put | Hold)
            if not isinstance(op, CheckVersion)
        ]
        if changing:
            assert self.versions[-1] < version
            self.versions.append(version)
        for op in changing:
            if isinstance(op, Delete):
                self.rows.pop(op.key, None)
                continue
            holder = self.rows[op.key][2] if op.key in self.rows else None
            holder = owner if isinstance(op, Hold) else holder
            self.rows[op.key] = (op.value, version, holder)

    def records(self) -> list[StoredRecord]:
        """What a scan must answer."""
        return [StoredRecord(k, v, n) for k, (v, n, _) in sorted(self.rows.items())]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_does_as_the_model(
    backend: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """
    The same commits succeed, the same records are read, and versions only rise.
    """

    @settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
    @given(steps)
    def run(drawn: list[tuple[int, list[tuple[str, str, str]] | None]]) -> None:
        space = BACKENDS[backend](request, tmp_path_factory)
        model = Model()
        stores: list[RecordStore] = [space.open() for _ in range(3)]
        owners = [0, 1, 2]
        for number, (index, wanted) in enumerate(drawn):
            if wanted is None:
                stores[index].close()
                held = [k for k, row in model.rows.items() if row[2] == owners[index]]
                for key in held:
                    del model.rows[key]
                stores[index], owners[index] = space.open(), 3 + number
                continue
            ops = model.ops(wanted, b"%d" % number)
            allowed = model.allows(ops, owners[index])
            version = stores[index].commit(ops)
            assert allowed is (version is not None), ops
            if version is not None:
                model.apply(ops, owners[index], version)
            assert model.records() == stores[number % 3].scan()
        space.close()

    run()
