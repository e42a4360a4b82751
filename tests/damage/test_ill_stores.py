"""
A store with one segment that is missing, short or unreadable: for each position and
each way, every record that is still there is served by every tool and never named as
bad, no tool calls the store whole, and a replica heals it. What the system does not
open is unknown.
"""

from __future__ import annotations

import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from damage.stores import SEGMENT, Kept, make_stores
from lib.store.forked import as_user
from lib.store.stores import make_folder, remove_folder

from pystore import CommitLog, arrow_reader
from pystore.cli import main
from pystore.doctor.apply import heal
from pystore.errors import (
    CorruptError,
    InvalidError,
    OffsetOutOfRange,
    PystoreError,
)
from pystore.recovery.dry_run import find_stored_end
from pystore.verify import verify_store

NOBODY = 65534


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


class Way(NamedTuple):
    """
    What happens to a segment.

    Attributes:
        harm: does it.
        left: the bytes of it that can be read.
    """

    harm: Callable[[Path], object]
    left: int = 0


WAYS = {
    "missing": Way(Path.unlink),
    "empty": Way(lambda path: os.truncate(path, 0)),
    "short": Way(lambda path: os.truncate(path, 7001), 7001),
    "short by a byte": Way(lambda path: os.truncate(path, SEGMENT - 1), SEGMENT - 1),
    "a pipe": Way(_fifo),
    "a directory": Way(_directory),
    "a link to itself": Way(_loop),
    "of another user": Way(lambda path: path.chmod(0)),
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """
    A folder that every user may enter.
    """
    path = make_folder()
    path.chmod(0o755)
    yield path
    remove_folder(path)


@pytest.fixture(scope="module")
def stores(folder: Path) -> list[Kept]:
    """
    A store in each state, with and without queues.
    """
    return [kept for kept in make_stores(folder) if kept.has_crc]


@pytest.mark.parametrize("name", WAYS)
def test_one_ill_segment_hides_no_record_of_the_others(
    name: str, stores: list[Kept]
) -> None:
    """
    Each position in each store; an error names the position and the tool.
    """
    if name == "of another user" and os.getuid() != 0:
        pytest.skip("needs root")
    _import_all(stores[0])
    objections = []
    for kept in stores:
        bases = sorted(int(path.name) for path in _log(kept.backup).iterdir())
        for base in bases:
            _restore(kept)
            path = _log(kept.root) / f"{base:020}"
            WAYS[name].harm(path)
            case = _Case(kept, base, WAYS[name].left, path, bases)
            label = f"{kept.state}, queues {kept.has_queues}, segment {base}"
            user = NOBODY if name == "of another user" else os.getuid()
            objections += [f"{label}: {one}" for one in as_user(user, case.judge)]

    assert [] == objections


def _import_all(kept: Kept) -> None:
    """
    Imports what a judgement imports, since another user may not read Python's files.
    """
    _restore(kept)
    base = min(int(path.name) for path in _log(kept.root).iterdir())
    damaged = _log(kept.root) / f"{base:020}"
    damaged.unlink()
    CliRunner().invoke(main, ["verify", str(kept.root)])


def _log(root: Path) -> Path:
    return root / "commitlog"


def _restore(kept: Kept) -> None:
    for path in kept.root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(kept.backup, kept.root, dirs_exist_ok=True)
    for path in (kept.root, *kept.root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


class _Case(NamedTuple):
    """
    A store with an ill segment.

    Attributes:
        kept: the store.
        base: of the segment.
        left: its readable bytes.
        path: of its file.
        bases: of all segments.
    """

    kept: Kept
    base: int
    left: int
    path: Path
    bases: list[int]

    @property
    def here(self) -> list[int]:
        """
        The offsets of the records that are still there.
        """
        low, high = self.base + self.left, self.base + SEGMENT
        return [
            offset
            for offset, data in self.kept.records.items()
            if not (offset < high and offset + len(data) > low)
        ]

    @property
    def gone(self) -> list[int]:
        """
        The offsets of the others.
        """
        return sorted(self.kept.records.keys() - set(self.here))

    @property
    def is_seen(self) -> bool:
        """
        Whether a reader can know of it: in another boot no file says where the log
        began, if its first segment has gone, nor where it ended, if no more of the last
        one was stored as synced.
        """
        is_at_end = self.base == self.bases[0] or (
            self.base == self.bases[-1]
            and find_stored_end(self.kept.root) <= self.base + self.left
        )
        has_file = os.path.lexists(self.path) and not (
            self.base == self.bases[-1]
            and self.path.is_file()
            and self.path.stat().st_size == 0
        )
        return has_file or not is_at_end or self.kept.state != "another boot"

    @property
    def has_no_answer(self) -> bool:
        """
        Whether the system says nothing of the segment: it may be whole.
        """
        try:
            os.close(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK))
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def judge(self) -> list[str]:
        """
        The objections to what the tools do, one line each.
        """
        tools: tuple[Callable[[], None], ...] = (
            self._reader,
            self._scan,
            self._scan_past,
            self._verify,
            self._dump,
            self._arrow,
            self._writer,
        )
        found = []
        if os.access(self.path.parent, os.W_OK):
            tools = (*tools, self._doctor)
        for tool in tools:
            try:
                tool()
            except Exception as error:
                # Each tool is judged, whatever another one does.
                line = traceback.extract_tb(error.__traceback__)[-1].line
                found.append(
                    f"{tool.__name__}: {type(error).__name__} {error} ({line})"
                )
        return found

    def _reader(self) -> None:
        with CommitLog(self.kept.root, mode="r") as log:
            for offset in self.here:
                assert self.kept.records[offset] == log.read(offset).data
            for offset in self.gone:
                with pytest.raises(
                    CorruptError if self.is_seen else OffsetOutOfRange
                ) as caught:
                    log.read(offset)
                assert offset == caught.value.offset
            if not self.is_seen:
                assert () == log.ill
                return
            (ill,) = log.ill
            assert str(self.path) == ill.path
            assert self.base + self.left == ill.offset
            assert ill.offset < ill.end <= self.base + SEGMENT
            assert "restore it from a replica or a backup" in ill.reason

    def _scan(self) -> None:
        rows: list[int] = []
        with CommitLog(self.kept.root, mode="r") as log:
            if self.gone and self.is_seen:
                with pytest.raises(CorruptError, match=self.path.name) as caught:
                    rows += [int(one) for part in log.scan() for one in part["offset"]]
                assert self.gone[0] == caught.value.offset
            else:
                rows += [int(one) for part in log.scan() for one in part["offset"]]
                assert self.here == rows

    def _scan_past(self) -> None:
        damages: list[tuple[CorruptError, int]] = []
        with CommitLog(self.kept.root, mode="r") as log:
            found = log.scan_past_damage(on_damage=lambda *one: damages.append(one))
            rows = [int(one) for part in found for one in part["offset"]]
        assert self.here == rows
        if self.gone and self.is_seen:
            ((error, behind),) = damages
            assert self.gone[0] == error.offset
            assert self.gone[-1] < behind
            assert str(self.path) in str(error)
        else:
            assert [] == damages

    def _verify(self) -> None:
        report = verify_store(self.kept.root)
        is_closed = self.has_no_answer
        assert ("unknown" if is_closed else "damaged") == report.verdict
        assert len(self.here) == report.records
        (damage,) = report.unknown if is_closed else report.damages
        assert damage.path in (str(self.path), str(self.path.parent))
        assert damage.offset is not None
        assert not [
            offset
            for offset in self.here
            if damage.offset <= offset < damage.offset + damage.skipped_bytes
        ]
        entries = len(self.here) if self.kept.has_queues else 0
        assert entries == report.queues.entries
        result = CliRunner().invoke(main, ["verify", str(self.kept.root)])
        assert (3 if is_closed else 1) == result.exit_code, result.output

    def _dump(self) -> None:
        result = CliRunner().invoke(main, ["dump", str(self.kept.root)])
        lines = [json.loads(line)["offset"] for line in result.stdout.splitlines()]
        assert self.here == lines
        if self.gone and self.is_seen:
            assert (3 if self.has_no_answer else 1) == result.exit_code
            (line,) = result.stderr.splitlines()
            assert f"offset {self.gone[0]}: {self.path}: " in line
        else:
            assert (0, "") == (result.exit_code, result.stderr)

    def _arrow(self) -> None:
        def rows(on_damage: str) -> list[dict[str, Any]]:
            columns = ["offset", "size"] + ["damage"] * (on_damage == "report")
            reader = arrow_reader(
                self.kept.root, columns=columns, on_damage=on_damage, topics=["t*"]
            )
            found: list[dict[str, Any]] = reader.read_all().to_pylist()
            return found

        assert self.here == [row["offset"] for row in rows("skip")]
        reported = rows("report")
        assert self.here == [row["offset"] for row in reported if not row["damage"]]
        damaged = [row for row in reported if row["damage"]]
        if self.gone and self.is_seen:
            (row,) = damaged
            assert self.gone[0] == row["offset"]
            assert self.gone[-1] < row["offset"] + row["size"]
            with pytest.raises(CorruptError, match=self.path.name) as caught:
                rows("fail")
            assert self.gone[0] == caught.value.offset
        else:
            assert [] == damaged
            assert reported == [row | {"damage": None} for row in rows("fail")]

    def _writer(self) -> None:
        before = sorted(os.listdir(self.path.parent))
        with pytest.raises(PystoreError) as caught:
            CommitLog(self.kept.root)
        assert "\n" not in str(caught.value)
        assert before == sorted(os.listdir(self.path.parent))

    def _doctor(self) -> None:
        before = sorted(os.listdir(self.path.parent))
        if self.base not in (self.bases[0], self.bases[-1]):
            with pytest.raises(InvalidError) as refused:
                heal(self.kept.root, accept_loss=True)
            assert str(self.path) == refused.value.path
            assert before == sorted(os.listdir(self.path.parent))
        if self.has_no_answer:  # its bytes may be whole, and are not replaced
            with pytest.raises(InvalidError, match="cannot open"):
                heal(self.kept.root, [self.kept.backup])
            return
        with suppress(InvalidError):
            heal(self.kept.root, [self.kept.backup])
            assert "whole" == verify_store(self.kept.root).verdict
        if self.base == self.bases[-1] and verify_store(self.kept.root).damages:
            # The replica does not show what stands behind its own end.
            return
        with CommitLog(self.kept.root) as log:
            found = {offset: log.read(offset).data for offset in self.kept.records}
        assert self.kept.records == found
