"""
What RocketMQ would make of a log: on every golden store and every damage to one,
the end that it found itself.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from lib.oracle import reference
from lib.oracle.golden_data import STORES, VARIANTS, GoldenStore, apply_patch
from lib.oracle.reference import ReferenceLog

from pystore.consumequeue.queues import ConsumeQueues, queue_file_size
from pystore.core.log_reader import LogReader
from pystore.errors import NotAStoreError
from pystore.recovery.rocketmq import (
    RocketmqEvidence,
    gather_evidence,
    rocketmq_end,
    start_offset,
)
from pystore.recovery.segments import Segments
from pystore.recovery.survey import survey_evidence
from pystore.recovery.torn_tail import Corrupt, Torn, Verdict, Whole
from pystore.rocketmq.checkpoint_file import CheckpointTimes, parse_checkpoint

CASES = [
    *((store, {"variant": "as-left", "patch": []}) for store in STORES),
    *VARIANTS,
]


@dataclasses.dataclass
class Damaged:
    """
    One golden store, undamaged or damaged, and its evidence.
    """

    store: GoldenStore
    variant: str
    root: Path
    log: ReferenceLog
    queues: ConsumeQueues
    opening: RocketmqEvidence
    result: dict[str, Any]


def _damaged(store: GoldenStore, damage: dict[str, Any], folder: Path) -> Damaged:
    root = store.extract(folder)
    apply_patch(root, damage["patch"])
    config = store.expected["config"]
    file_size = queue_file_size(int(config["mappedFileSizeConsumeQueue"]))
    queues = ConsumeQueues(root, file_size)
    queues.load()
    named = queues.last_named()
    times = CheckpointTimes()
    if (root / "checkpoint").exists():
        times = parse_checkpoint((root / "checkpoint").read_bytes())
    opening = RocketmqEvidence(
        is_abort=(root / "abort").exists(),
        times=times,
        dispatch_point=named[1] if named else -1,
        force_property_crc=config.get("forceVerifyPropCRC") == "true",
    )
    log = ReferenceLog.open(root, store.segment_size)
    result = damage.get("result", store.expected)
    return Damaged(store, damage["variant"], root, log, queues, opening, result)


def _verdict(case: Damaged) -> Verdict:
    """
    What opening decides about a store without bounds.
    """
    with LogReader(case.root) as log:
        segments = Segments(log)
        evidence = gather_evidence(segments, case.queues, case.opening)
        return survey_evidence(segments, case.queues, evidence).verdict


@pytest.fixture(
    scope="module",
    params=CASES,
    ids=[f"{store.name}-{damage['variant']}" for store, damage in CASES],
)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Damaged:
    """
    Each golden store as it was left, and under each damage.
    """
    store, damage = request.param
    return _damaged(store, damage, tmp_path_factory.mktemp("damaged"))


def test_the_end_is_the_one_that_java_found(case: Damaged) -> None:
    """
    ``maxPhyOffset``, to the byte. Where Java's loading failed after recovery had
    found the end (controller mode and V2 records), it is the end of the same store
    in another mode; where a segment is too short, there is none to compare.
    """
    found = rocketmq_end(case.log, case.opening)

    if case.result["loadOk"]:
        assert case.result["maxPhyOffset"] == found
    elif case.variant.startswith("controller-mode"):
        assert case.store.expected["maxPhyOffset"] == found


def test_the_core_s_scan_leads_to_the_same_end(case: Damaged) -> None:
    """
    It is stricter than RocketMQ's; what it stops at is judged again.
    """
    try:
        log = LogReader(case.root)
    except NotAStoreError:
        # A segment that is too short: nothing to compare.
        assert not case.result["loadOk"]
        return

    with log:
        assert rocketmq_end(case.log, case.opening) == rocketmq_end(
            Segments(log), case.opening
        )


def test_our_end_is_the_same_or_stricter_by_a_rule(case: Damaged) -> None:
    """
    Never above RocketMQ's; if below, or if nothing may be written, a rule says why.
    Every store that Java left whole is whole, halted or not.
    """
    try:
        verdict = _verdict(case)
    except NotAStoreError:
        # A segment that is too short.
        assert not case.result["loadOk"]
        return

    theirs = rocketmq_end(case.log, case.opening)
    if isinstance(verdict, Whole):
        assert theirs == verdict.end
    else:
        assert case.variant != "as-left"
        assert theirs >= verdict.end
        assert verdict.rule in ("A6", "A8")


@pytest.mark.parametrize(
    ("name", "kind", "offset", "reason"),
    [
        ("abort tail-crc", Torn, 365548, "the body's checksum differs"),
        ("abort tail-blank-magic", Torn, 365548, "blank record has a wrong size"),
        ("abort last-segment-body-flip", Corrupt, 345639, "whole records follow"),
        ("abort second-last-segment-body-flip", Corrupt, 325238, "segment 327680"),
        ("abort third-last-segment-body-flip", Corrupt, 259075, "at 259367 is who"),
        ("abort second-segment-body-flip", Corrupt, 128042, "would start at"),
        ("abort-propcrc property-byte-flip", Corrupt, 127689, "record's checksum"),
        ("mixed-clean last-segment-body-flip", Corrupt, 397163, "at 447345"),
        ("mixed-clean physical-offset-garbled", Corrupt, 395223, "another offset"),
        ("mixed-clean last-segment-removed", Corrupt, 393216, "at 446180"),
        ("mixed-clean tail-half-zero", Torn, 447345, "lengths do not add up"),
    ],
)
def test_the_offset_of_damage_decides_the_verdict(
    name: str, kind: type, offset: int, reason: str, tmp_path: Path
) -> None:
    """
    Examples of each clause, on RocketMQ's own files.
    """
    store, damage = next(
        (store, damage)
        for store, damage in VARIANTS
        if f"{store.name} {damage['variant']}" == name
    )

    verdict = _verdict(_damaged(store, damage, tmp_path))

    assert isinstance(verdict, kind)
    assert isinstance(verdict, Torn | Corrupt)
    assert offset == getattr(verdict, "offset", verdict.end)
    assert reason in verdict.reason


@pytest.fixture
def halted(tmp_path: Path) -> Damaged:
    """
    A store that was halted, with four segments of records and one empty.
    """
    (store,) = (store for store in STORES if store.name == "abort-v1topics")
    return _damaged(store, {"variant": "as-left", "patch": []}, tmp_path)


def test_after_a_clean_stop_recovery_starts_at_the_dispatch_point(
    halted: Damaged,
) -> None:
    """
    In the newest segment that begins at or below it; in the oldest without one.
    """
    starts = {
        point: start_offset(
            halted.log, RocketmqEvidence(is_abort=False, dispatch_point=point)
        )
        for point in (-1, 0, 49151, 49152, 10**9)
    }

    assert {-1: 0, 0: 0, 49151: 0, 49152: 49152, 10**9: 196608} == starts


def test_after_a_halt_recovery_starts_where_the_checkpoint_vouches(
    halted: Damaged,
) -> None:
    """
    Three seconds below the older of log and queues; below the index, too, if that
    is to be whole; never in a segment without a record.
    """
    log, first_ms = halted.log, []
    for base in log.bases[:-1]:
        rows = next(log.rows(base))
        first_ms.append(int(rows["store_ms"][0]))

    def start(physic: int, logics: int, index: int = 0, *, safe: bool = False) -> int:
        times = CheckpointTimes(physic, logics, index)
        return start_offset(
            log, RocketmqEvidence(is_abort=True, times=times, is_index_safe=safe)
        )

    late = first_ms[3] + 10**6
    assert log.bases[3] == start(late, late)
    assert log.bases[2] == start(first_ms[2] + 3000, late)
    assert log.bases[1] == start(first_ms[2] + 2999, late)
    assert log.bases[1] == start(late, first_ms[2] + 2999)
    assert log.bases[0] == start(0, 0)
    assert log.bases[0] == start(late, late, 0, safe=True)
    assert log.bases[2] == start(late, late, first_ms[2], safe=True)


@pytest.mark.parametrize("is_abort", [True, False])
def test_rocketmq_5_5_looks_at_the_newest_segments_only(
    halted: Damaged, *, is_abort: bool
) -> None:
    """
    So a bad record below them does not end its log (``commitLogRecoverMaxNum``).
    """
    log, bases = halted.log, halted.log.bases
    opening = RocketmqEvidence(is_abort=is_abort)
    starts = [
        start_offset(log, dataclasses.replace(opening, segments_max=most))
        for most in range(len(bases) + 2)
    ]
    whole = rocketmq_end(log, opening)
    log.segments[bases[1]] = bytes(log.segment_size)

    assert [bases[0], *reversed(bases), bases[0]] == starts
    assert bases[1] == rocketmq_end(log, opening)
    limited = dataclasses.replace(opening, segments_max=len(bases) - 2)
    assert whole == rocketmq_end(log, limited)


def test_a_log_without_segments_ends_at_zero() -> None:
    """
    RocketMQ starts anew there.
    """
    log = ReferenceLog([], 4096, {})

    assert 0 == rocketmq_end(log, RocketmqEvidence(is_abort=True))
    assert 0 == start_offset(log, RocketmqEvidence(is_abort=False))


def test_what_rocketmq_does_not_check_does_not_end_its_log(halted: Damaged) -> None:
    """
    Without CRC checks a flipped body is accepted.
    """
    log = halted.log
    rows = next(log.rows(log.bases[3]))
    row = rows[rows["body_size"] > 0][2]
    data = bytearray(log.segments[log.bases[3]])
    at = int(row["offset"]) - log.bases[3] + int(row["body_at"])
    data[at] ^= 1
    log.segments[log.bases[3]] = bytes(data)
    opening = dataclasses.replace(halted.opening, check_crc=False)

    assert int(row["offset"]) == rocketmq_end(log, halted.opening)
    assert halted.result["maxPhyOffset"] == rocketmq_end(log, opening)


def test_lengths_below_zero_count_as_zero_where_java_reads_them_so(
    halted: Damaged,
) -> None:
    """
    For pystore the record is bad; RocketMQ continues after it.
    """
    log = halted.log
    rows = next(log.rows(log.bases[3], reference.BODY))
    row = rows[(rows["properties_size"] > 0)][3]
    data = bytearray(log.segments[log.bases[3]])
    at = int(row["offset"]) - log.bases[3]
    size = int(row["size"]) - int(row["properties_size"])
    data[at : at + 4] = size.to_bytes(4, "big")
    data[at + int(row["properties_at"]) - 2] = 0x80
    log.segments[log.bases[3]] = bytes(data)

    assert int(row["offset"]) == log.scan_end(log.bases[3], reference.BODY).offset
    assert int(row["offset"]) + size == rocketmq_end(log, halted.opening)


def test_stale_records_above_the_end_are_cut_here_and_kept_by_rocketmq(
    tmp_path: Path,
) -> None:
    """
    The trap of the format page: ten equal records, cut to four, two appended to
    another queue. The clock was set back meanwhile, which decides nothing.
    """
    size = 100
    records = bytearray()
    for number in range(10):
        is_new = number in (4, 5)
        record = _record(number * size, 1_000_000 - 10_000 * is_new, size)
        if is_new:
            record = _in_queue(record, 1, number - 4)
        records += record
    segment = bytes(records).ljust(4096, b"\0")
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(segment)
    log = ReferenceLog([0], 4096, {0: segment})
    queues = ConsumeQueues(tmp_path, 200, is_writable=True)
    queues.load()
    queues.dispatch(next(log.rows(0))[:6], 600, log.topic)
    opening = RocketmqEvidence(is_abort=False, dispatch_point=600)
    case = Damaged(STORES[0], "stale", tmp_path, log, queues, opening, {})

    verdict = _verdict(case)

    assert 1000 == rocketmq_end(log, opening)
    assert ("A8", 600) == (getattr(verdict, "rule", None), verdict.end)
    assert "Stale" == type(verdict).__name__


def _in_queue(record: bytes, queue_id: int, queue_offset: int) -> bytes:
    """
    The record in another queue.
    """
    place = queue_offset.to_bytes(8, "big")
    return (
        record[:12] + queue_id.to_bytes(4, "big") + record[16:20] + place + record[28:]
    )


def _record(offset: int, store_ms: int, size: int) -> bytes:
    """
    A V1 record without body, of topic T, filled up with one property.
    """
    value = b"a\x01" + b"x" * (size - 91 - 1 - 3) + b"\x02"
    record = bytearray(size)
    record[:8] = size.to_bytes(4, "big") + reference.V1.to_bytes(4, "big")
    record[20:36] = (offset // size).to_bytes(8, "big") + offset.to_bytes(8, "big")
    record[40:48] = record[56:64] = store_ms.to_bytes(8, "big")
    record[88:92] = b"\x01T" + len(value).to_bytes(2, "big")
    record[92:] = value
    return bytes(record)
