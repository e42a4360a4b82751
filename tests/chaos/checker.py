"""
Checks a history against the log in the end. Pure, and of its own: it uses no rule of
the product's code.

Each rule returns the violations that it finds, one line each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaos.history import Appended, Read, Row, Status

__all__ = ["RULES", "Final", "Record", "violations"]


@dataclass(frozen=True, slots=True)
class Record:
    """
    One record of the log in the end.
    """

    offset: int
    queue_id: int
    queue_offset: int
    body: str


@dataclass(frozen=True, slots=True)
class Final:
    """
    The log in the end, which all stores have.

    Attributes:
        begin: where it begins.
        records: in the order of the log.
    """

    begin: int
    records: Sequence[Record]


def violations(
    rows: Iterable[Row], final: Final, *, retains: bool = False
) -> list[str]:
    """
    Returns every violation of every rule.

    Args:
        rows: of the history.
        final: the log in the end.
        retains: whether brokers deleted old segments.
    """
    known = list(rows)
    rules = RULES if retains else (*RULES, masters_have_the_whole_log)
    return [f"{rule.__name__}: {one}" for rule in rules for one in rule(known, final)]


def acknowledged_records_are_there(rows: Sequence[Row], final: Final) -> Iterator[str]:
    """
    What `all` or `all-synced` acknowledged is in the log, where the ack says.
    """
    found = {one.offset: one for one in final.records}
    for row in rows:
        if not isinstance(row, Appended) or not row.is_acked or not row.is_shared:
            continue
        if row.offset < final.begin:
            continue
        told = Record(row.offset, row.queue_id, row.queue_offset, row.body)
        if found.get(row.offset) != told:
            yield f"{row} is not there: {found.get(row.offset)}"


def epochs_do_not_overlap(rows: Sequence[Row], _: Final) -> Iterator[str]:
    """
    After an ack of an epoch no older epoch acknowledges what was asked for later. Of
    `leader` and `leader-synced` this holds among themselves: a new master serves `all`
    while the lease of the old one still runs.
    """
    acked = [one for one in rows if isinstance(one, Appended) and one.is_acked]
    for is_shared in (True, False):
        # The first ack of each epoch that ends those of older ones.
        first: dict[int, Appended] = {}
        for one in acked:
            if not is_shared and one.is_shared:
                continue
            known = first.get(one.epoch)
            if known is None or one.end_ns < known.end_ns:
                first[one.epoch] = one
        ends: list[tuple[int, Appended]] = sorted(first.items(), key=lambda at: at[0])
        for one in acked:
            if one.is_shared != is_shared:
                continue
            for epoch, newer in ends:
                if epoch > one.epoch and newer.end_ns < one.begin_ns:
                    yield f"{one} after {newer}"
                    break


def confirm_offsets_do_not_go_back(rows: Sequence[Row], _: Final) -> Iterator[str]:
    """
    Those of one process.
    """
    highest: dict[tuple[str, int], Read] = {}
    for row in rows:
        if not isinstance(row, Read):
            continue
        key = row.broker, row.run
        known = highest.get(key)
        if known is not None and row.confirm < known.confirm:
            yield f"{key} confirms {row.confirm} after {known.confirm}"
        if known is None or row.confirm > known.confirm:
            highest[key] = row


def read_records_stay(rows: Sequence[Row], final: Final) -> Iterator[str]:
    """
    What any reader was given is in the log, at the same offset.
    """
    found = {one.offset: one.body for one in final.records}
    for row in rows:
        if not isinstance(row, Read):
            continue
        for offset, body in row.records:
            if offset >= final.begin and found.get(offset) != body:
                yield (
                    f"{row.broker} run {row.run} returned {body!r} at {offset}, where "
                    f"{found.get(offset)!r} is"
                )


def readers_see_what_was_acknowledged(rows: Sequence[Row], _: Final) -> Iterator[str]:
    """
    A master that acknowledged a record with `all` returns it to who asks later.
    """
    acked: dict[str, list[Appended]] = {}
    for row in rows:
        if isinstance(row, Appended) and row.is_acked:
            acked.setdefault(row.broker, []).append(row)
    for ones in acked.values():
        ones.sort(key=lambda one: one.end_ns)
    times = {name: [one.end_ns for one in ones] for name, ones in acked.items()}
    last = {
        (one.broker, one.epoch): one.end_ns for ones in acked.values() for one in ones
    }
    highest = {name: list(_highest(ones)) for name, ones in acked.items()}
    for row in rows:
        if not isinstance(row, Read) or row.broker not in acked:
            continue
        count = bisect_left(times[row.broker], row.begin_ns)
        epoch, offset = highest[row.broker][count]
        if last.get((row.broker, epoch), 0) <= row.end_ns:
            continue  # it may have ended before the read
        if row.confirm <= offset:
            yield f"{row.broker} confirms {row.confirm} after an ack of {offset}"


def _highest(acked: list[Appended]) -> Iterator[tuple[int, int]]:
    """
    The epoch, and the highest offset that it gave `all` so far: before the first ack,
    and after each.
    """
    epoch, offset = 0, -1
    yield epoch, offset
    for one in acked:
        if one.epoch > epoch:
            epoch, offset = one.epoch, -1
        if one.epoch == epoch and one.is_shared:
            offset = max(offset, one.offset)
        yield epoch, offset


def queue_offsets_go_on_by_one(_: Sequence[Row], final: Final) -> Iterator[str]:
    """
    In each queue, in the order of the log.
    """
    newest: dict[int, Record] = {}
    for one in final.records:
        known = newest.get(one.queue_id)
        if known is not None and one.queue_offset != known.queue_offset + 1:
            yield f"{one} after {known}"
        newest[one.queue_id] = one


def each_record_was_asked_for_and_is_there_once(
    rows: Sequence[Row], final: Final
) -> Iterator[str]:
    """
    No record comes from nowhere, and none comes twice.
    """
    asked = {one.body for one in rows if isinstance(one, Appended)}
    seen: dict[str, Record] = {}
    for one in final.records:
        if one.body not in asked:
            yield f"{one} was not asked for"
        if one.body in seen:
            yield f"{one} is {seen[one.body]}"
        seen[one.body] = one


def broker_ids_are_given_once(rows: Sequence[Row], _: Final) -> Iterator[str]:
    """
    No two machines ever have the same id, and a process keeps its own.
    """
    names: dict[int, str] = {}
    ids: dict[tuple[str, int], int] = {}
    for row in rows:
        if not isinstance(row, Status) or not row.broker_id:
            continue
        name = names.setdefault(row.broker_id, row.broker)
        if name != row.broker:
            yield f"broker id {row.broker_id} is of {name} and of {row.broker}"
        known = ids.setdefault((row.broker, row.run), row.broker_id)
        if known != row.broker_id:
            yield f"{row.broker} has the broker ids {known} and {row.broker_id}"


def one_broker_leads_an_epoch(rows: Sequence[Row], _: Final) -> Iterator[str]:
    """
    An epoch has one master for ever.
    """
    masters: dict[int, str] = {}
    for row in rows:
        leads = isinstance(row, Status) and row.role == "master"
        if not leads and not (isinstance(row, Appended) and row.epoch):
            continue
        assert isinstance(row, Status | Appended)
        name = masters.setdefault(row.epoch, row.broker)
        if name != row.broker:
            yield f"epoch {row.epoch} is of {name} and of {row.broker}"


def masters_have_the_whole_log(rows: Sequence[Row], _: Final) -> Iterator[str]:
    """
    Where no segment is deleted, the log of a master begins at 0.
    """
    for row in rows:
        if isinstance(row, Status) and row.role == "master" and row.begin:
            yield f"{row.broker} leads epoch {row.epoch}, and begins at {row.begin}"


RULES = (
    acknowledged_records_are_there,
    epochs_do_not_overlap,
    confirm_offsets_do_not_go_back,
    read_records_stay,
    readers_see_what_was_acknowledged,
    queue_offsets_go_on_by_one,
    each_record_was_asked_for_and_is_there_once,
    broker_ids_are_given_once,
    one_broker_leads_an_epoch,
)
