"""
What must hold of every crash state: the store opens, and it keeps its promises.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from crash.facts import Facts
from crash.note_writer import QUEUE_FILE_BYTES, SEGMENT_SIZE

from pystore.bindings.ffi import Check
from pystore.controller.identity.store import IdentityStore
from pystore.core.scan import check_record
from pystore.epochs.file import read_epochs
from pystore.errors import NotAStoreError
from pystore.fs.layout import (
    ABORT,
    CHECKPOINT,
    CONSUME_QUEUE,
    EPOCH_FILE,
    EPOCH_FILE_BACKUP,
    IDENTITY_FILE,
    TEMPORARY_IDENTITY_FILE,
)
from pystore.message.message import Message
from pystore.message.record import Record
from pystore.metastore.schema import CUT, INCARNATION
from pystore.metastore.schema import IDENTITY as STORED_IDENTITY
from pystore.recovery.dry_run import inspect
from pystore.recovery.salvage import Loss
from pystore.rocketmq.abort_file import parse_abort
from pystore.rocketmq.checkpoint_file import parse_checkpoint
from pystore.rocketmq.identity_file import (
    BrokerIdentity,
    parse_identity,
    parse_temporary_identity,
)
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store

__all__ = ["check_store"]

_ALL = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.TOPIC
Queue = tuple[str, int]


def check_store(
    root: Path,
    facts: Facts,
    is_power_cut: bool,
    *,
    is_foreign: bool = False,
    has_loss: bool = False,
) -> None:
    """
    Open the store as it is, twice, and compare it with what was promised.

    Args:
        root: the store.
        facts: of the notes before the crash.
        is_power_cut: else a process was killed.
        is_foreign: whether another program's store was being taken over.
        has_loss: whether records were given up, whose queue offsets stay theirs.
    """
    planned = _look(root)
    _check_exports(root)
    with CommitLog(root, segment_size=SEGMENT_SIZE, flush_interval_ms=0) as log:
        recovery = log.recovery
        assert is_foreign or not recovery.foreign, recovery.foreign
        _check_saved(recovery.loss)
        assert not facts.is_clean or recovery.is_clean
        records = _records(log)
        end = log.end_offset
        assert planned in (None, end)
        _check_records(facts, records, end, is_power_cut=is_power_cut)
        _check_metadata(log, facts, is_foreign=is_foreign)
        _check_zeros(root, end)
        _check_abort(root, log)
        times = _check_exports(root, log)
        assert times <= (records[-1].store_ms if records else 0)
        queues = _check_queue_offsets(log, facts, records, has_loss=has_loss)
    again = _check_again(root, records, end, queues, has_loss=has_loss)
    assert again == [record.data for record in records]


def _look(root: Path) -> int | None:
    """
    Readers, the verification and the dry run take every state.

    Returns:
        The end that opening would find.
    """
    if not (root / "commitlog").is_dir():
        return None
    # Queue entries are no promise before an opening has cut them to the log.
    damages = verify_store(root).damages
    of_the_log = [one for one in damages if CONSUME_QUEUE not in one.path]
    assert not of_the_log, of_the_log
    with CommitLog(root, mode="r") as log:
        for _ in log.scan(stops_at_damage=True):
            pass
    try:
        return inspect(root).plan.end_offset
    except NotAStoreError:
        return None


def _check_saved(loss: Loss | None) -> None:
    """
    What an opening cut and saved can be read back: each listed record is whole (A17).
    """
    if loss is None:
        return
    found = []
    for path in sorted(loss.directory.iterdir()):
        data, first = path.read_bytes(), int(path.name)
        for at in (at for at in loss.records if first <= at < first + len(data)):
            check_record(data[at - first :], at, Check.BODY | Check.OFFSET)
            found.append(at)
    assert list(loss.records) == found


def _records(log: CommitLog) -> list[Record]:
    """Every record, wholly checked; the scan must end where the log does."""
    scan = log.scan(checks=_ALL)
    records = [log.read(int(row["offset"])) for rows in scan for row in rows]
    assert log.end_offset == scan.cursor.offset, scan.cursor
    return records


def _check_records(
    facts: Facts, records: list[Record], end: int, *, is_power_cut: bool
) -> None:
    must = facts.must_hold(is_power_cut=is_power_cut)
    if facts.cut is not None and end <= facts.cut:
        # The cut is done: at its very offset, or lower where nothing was synced when
        # power was lost, now or before.
        held = max((at + len(raw) for at, raw in must.items()), default=0)
        may_be_lower = is_power_cut or bool(facts.maybe)
        assert end == facts.cut or (may_be_lower and end >= min(held, facts.cut))
        must = {at: raw for at, raw in must.items() if at < facts.cut}
    found = {record.offset: record.data for record in records}
    lowest = min(facts.allowed("min"), default=0)
    if "delete" in (facts.deed, facts.deed) and records:
        lowest = max(lowest, min(found))
    lowest_found = min(found, default=end)
    highest_min = max(facts.allowed("min"), default=0)
    must = {at: raw for at, raw in must.items() if at >= min(lowest_found, highest_min)}
    assert must == {at: found.get(at) for at in must}
    flying = facts.flying_bodies
    for record in records:
        if record.data in (
            facts.records.get(record.offset),
            facts.maybe.get(record.offset),
        ):
            continue
        assert record.body in flying, (
            f"no process wrote {record!r} {record.body[:20]!r}"
        )
        flying.remove(record.body)
    if not is_power_cut:
        # In the same boot the published end is exact (A19).
        written = {record.body.decode() for record in records}
        for batch in facts.batches.values():
            assert len(written & set(batch)) in (0, len(batch)), batch[0]


def _check_metadata(log: CommitLog, facts: Facts, *, is_foreign: bool) -> None:
    with log.writer.metastore.view() as view:
        generation, counter = view.read(CUT).generation, view.read(INCARNATION).counter
    if facts.metadata:
        assert [list(one) for one in log.epochs.pairs()] in facts.allowed("epochs")
        if not is_foreign:
            for name, value in ("generation", generation), ("counter", counter - 1):
                allowed = facts.allowed(name)
                # An opening after a crash is a generation of its own.
                most = max(allowed) + (name == "generation")
                assert min(allowed) <= value <= most, (name, value, allowed)


def _check_identity(log: CommitLog, facts: Facts) -> None:
    """
    As in the last or the next note (RMQ-R24 to RMQ-R26), and a read updates both files.
    """
    who = IdentityStore(log.writer).read()
    assert STORED_IDENTITY.to_json(who) in facts.allowed("identity")
    is_final = isinstance(who, BrokerIdentity)
    for name, is_there in (
        (IDENTITY_FILE, is_final),
        (TEMPORARY_IDENTITY_FILE, who is not None and not is_final),
    ):
        path = log.path / name
        assert path.exists() == is_there
        assert not is_there or (who and path.read_bytes() == who.encode())


def _check_zeros(root: Path, end: int) -> None:
    for path in sorted((root / "commitlog").iterdir()):
        base = int(path.name)
        data = path.read_bytes()
        assert SEGMENT_SIZE == len(data)
        assert base <= end, "a segment begins above the end"
        above = data[max(0, end - base) :]
        assert not above.strip(b"\0"), f"bytes above {end} in {path.name}"


def _check_abort(root: Path, log: CommitLog) -> None:
    with log.writer.metastore.view() as view:
        text = view.read(INCARNATION).text
    assert text == parse_abort((root / ABORT).read_bytes()).incarnation


def _check_exports(root: Path, log: CommitLog | None = None) -> int:
    """
    RocketMQ's files are old or new, but whole.

    Returns:
        The store time of the last flushed record, by ``checkpoint``.
    """
    found: dict[str, bytes | None] = {}
    for name in (
        CHECKPOINT,
        EPOCH_FILE,
        EPOCH_FILE_BACKUP,
        IDENTITY_FILE,
        TEMPORARY_IDENTITY_FILE,
    ):
        path = root / name
        found[name] = path.read_bytes() if path.exists() else None
    epochs = read_epochs(found[EPOCH_FILE], found[EPOCH_FILE_BACKUP], EPOCH_FILE)
    if log is not None:
        pairs = log.epochs.pairs()
        assert pairs == (epochs.table.pairs() if epochs else [])
    if (identity := found[IDENTITY_FILE]) is not None:
        parse_identity(identity)
    if (temporary := found[TEMPORARY_IDENTITY_FILE]) is not None:
        parse_temporary_identity(temporary)
    if (checkpoint := found[CHECKPOINT]) is None:
        return 0
    return parse_checkpoint(checkpoint).physic_ms


def _check_queue_offsets(
    log: CommitLog, facts: Facts, records: list[Record], *, has_loss: bool
) -> dict[Queue, int]:
    """
    Queue offsets continue without a gap, but for lost records, and without a
    repetition.

    Returns:
        The next one of each queue, after one append more to each.
    """
    found: dict[Queue, list[int]] = defaultdict(list)
    for record in records:
        found[record.topic, record.queue_id].append(record.queue_offset)
    for offsets in found.values():
        if has_loss:
            assert sorted(set(offsets)) == offsets
        else:
            assert list(range(offsets[0], offsets[0] + len(offsets))) == offsets
        assert log.min_offset > 0 or offsets[0] == 0
    queues = {key: offsets[-1] + 1 for key, offsets in found.items()}
    if log.min_offset > 0:
        # Retention took all of a queue's records, but not its offsets.
        for topic, queue_id, value in facts.metadata.get("queues", []):
            if not facts.cut and (topic, queue_id) not in queues:
                queues[topic, queue_id] = value
    return queues


def _check_again(
    root: Path,
    records: list[Record],
    end: int,
    queues: dict[Queue, int],
    *,
    has_loss: bool,
) -> list[bytes]:
    """
    A second opening finds all as it was, and a third with consume queues, too;
    then appends continue.

    Returns:
        The bytes of the records that were there before.
    """
    before = {p.name: p.read_bytes() for p in (root / "commitlog").iterdir()}
    with CommitLog(root) as log:
        assert log.recovery.is_clean
        assert (end, 0) == (log.end_offset, log.recovery.cut_bytes)
        again = [record.data for record in _records(log)]
    after = {p.name: p.read_bytes() for p in (root / "commitlog").iterdir()}
    assert before == after
    with Store(root, queue_file_bytes=QUEUE_FILE_BYTES) as store:
        for record in records:
            read = store.read(record.topic, record.queue_id, record.queue_offset)
            assert record.data == read.data
        for (topic, queue_id), value in queues.items():
            message = Message(topic, b"next", queue_id=queue_id)
            appended = store.log.append(message)
            found = appended.queue_offset
            assert value == found or (has_loss and value < found), (topic, queue_id)
    report = verify_store(root)
    assert "whole" == report.verdict, report.damages
    return again
