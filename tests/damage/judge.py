"""
Judges what the tools make of a damaged store.

What was acknowledged as synced is there, or a read of it raises, or opening for writing
refuses, or it was saved; nothing lost is called whole; no file that was not touched is
named; `verify` and the dry run agree with the opening.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from damage.harm import Harm
from damage.stores import Kept

from pystore import CommitLog, inspect
from pystore.doctor.apply import heal
from pystore.errors import CorruptError, PystoreError
from pystore.fs.layout import COMMIT_LOG
from pystore.verify import StoreReport, verify_store

__all__ = ["DATABASE", "judge", "judge_beside_writer", "judge_healed"]

LIVE = "meta/live"
DATABASE = "meta/lmdb/data.mdb"


def judge(root: Path, kept: Kept, harms: list[Harm]) -> list[str]:
    """
    The objections to what the tools make of a store, one line each.
    """
    report = _verify(root)
    is_refused_dry = _is_refused_dry(root)
    objections = list(_healthy_named(root, kept, report, harms))
    try:
        log = CommitLog(root)
    except PystoreError as error:
        # The refusal; the dry run must have said it.
        if not is_refused_dry:
            objections.append(f"opening refuses, the dry run does not: {error}")
        if report is not None and report.verdict == "whole":
            objections.append(f"opening refuses what verify calls whole: {error}")
        return objections
    missing, altered = _compare(log, kept)
    saved = log.recovery.loss
    try:
        log.close()
    except PystoreError as error:
        # A close completes the queues, and says so if a bad record is in its way.
        if report is None or not report.damages:
            objections.append(f"the close finds damage, verify does not: {error}")
    if is_refused_dry:
        objections.append("the dry run refuses, opening does not")
    is_whole = report is not None and not report.damages
    if missing and saved is None:
        objections.append(f"records are gone: {missing[:3]}")
    # A read checks the body; verify checks all that a checksum covers.
    if altered and is_whole and (_has_all_crcs(kept) or not _is_uncovered(report)):
        objections.append(f"altered records are called whole: {altered[:3]}")
    return objections


def judge_beside_writer(root: Path, kept: Kept, harms: list[Harm]) -> list[str]:
    """
    The objections to what verify and a reader make of a store that has a writer.
    """
    report = _verify(root)
    objections = list(_healthy_named(root, kept, report, harms))
    try:
        with CommitLog(root, mode="r") as log:
            altered = _compare(log, kept)[1]
    except PystoreError:
        # A reader that is refused returns nothing wrong.
        return objections
    is_whole = report is not None and not report.damages
    if altered and is_whole and (_has_all_crcs(kept) or not _is_uncovered(report)):
        objections.append(f"altered records are called whole: {altered[:3]}")
    return objections


def judge_healed(
    root: Path, kept: Kept, harms: list[Harm], *, has_copy: bool
) -> list[str]:
    """
    The objections to what the doctor makes of a store: it is whole again, with each
    record if a whole copy was beside it, else without those that it gave up; or the
    doctor names a harmed file that it cannot heal, and changes nothing.
    """
    copies = [kept.backup] if has_copy else []
    # A copy from before the writer has not all that it appended.
    accept_loss = not has_copy or kept.state == "writer running"
    try:
        plan = heal(root, copies, accept_loss=accept_loss).plan
    except CorruptError as error:
        # An opening refuses what the doctor has changed.
        return [f"the doctor fails: {error}"]
    except PystoreError as error:
        # What it cannot heal is left to the operator.
        named = os.path.relpath(error.path or root, root)
        if any(_is_about(named, one.path) for one in harms):
            return []
        return [f"the doctor refuses: {error}"]
    report = verify_store(root)
    # A bit of the published end asks for bytes that never were.
    needs_consent = bool(plan.lost_bytes) and not accept_loss
    needs_consent = needs_consent and any(one.path == LIVE for one in harms)
    # Without a checksum nothing shows that the other harm made it another log.
    is_other_log = not kept.has_crc and len(harms) > 1
    if report.damages and (needs_consent or is_other_log):
        return []
    if report.damages:
        return [f"not healed: {one}" for one in report.damages]
    with CommitLog(root) as log:
        missing, altered = _compare(log, kept)
    lost = [(one.offset or 0, one.end or 0) for one in plan.steps if one.lost_bytes]
    missing = [at for at in missing if not _is_in(at, lost)]
    altered = [at for at in altered if not _is_in(at, lost)]
    objections = []
    if missing:
        objections.append(f"healed, records are gone: {missing[:3]}")
    # Without a copy, a record that lost its property CRC alone stays, unproved.
    is_strict = has_copy and kept.has_crc
    if altered and (is_strict or not _is_uncovered(report)):
        objections.append(f"healed, records are altered: {altered[:3]}")
    return objections


def _is_in(offset: int, ranges: list[tuple[int, int]]) -> bool:
    return any(low <= offset < high for low, high in ranges)


def _verify(root: Path) -> StoreReport | None:
    try:
        return verify_store(root)
    except PystoreError:
        # It could not finish: that is no verdict.
        return None


def _is_refused_dry(root: Path) -> bool:
    try:
        return inspect(root, with_rocketmq=False).plan.corrupt is not None
    except PystoreError:
        # A small file that cannot be read refuses both.
        return True


def _healthy_named(
    root: Path, kept: Kept, report: StoreReport | None, harms: list[Harm]
) -> Iterator[str]:
    touched = {one.path for one in harms}
    lost_end = any(one.path.startswith(COMMIT_LOG) for one in harms)
    for damage in report.damages if report is not None else ():
        named = os.path.relpath(damage.path, root)
        if LIVE in touched and "published end" in damage.reason:
            continue  # the live page has no checksum
        is_end_unknown = bool({LIVE, DATABASE} & touched) and lost_end
        if is_end_unknown and damage.part == "queue":
            continue  # nothing but the queues knows the end of the log
        if lost_end and not kept.has_crc and not (kept.backup / named).exists():
            continue  # a changed topic, without a checksum: a queue that never was
        if not any(_is_about(named, one.path) for one in harms):
            yield f"a healthy file is named: {named}: {damage.reason}"


def _is_about(named: str, touched: str) -> bool:
    """
    A directory stands for its files; the root, for a listing that does not fit.
    """
    return named in (".", touched) or touched.startswith(f"{named}/")


def _compare(log: CommitLog, kept: Kept) -> tuple[list[int], list[int]]:
    missing, altered = [], []
    end = log.end_offset
    for offset, data in kept.records.items():
        try:
            found = log.read(offset).data
        except PystoreError:
            # Below the end the read says what is wrong, and no caller is misled.
            if not log.min_offset <= offset < end:
                missing.append(offset)
            continue
        if found != data:
            altered.append(offset)
    return missing, altered


def _has_all_crcs(kept: Kept) -> bool:
    """
    Whether a record without a property CRC is odd. Nothing says so of a store of
    RocketMQ, whose configuration may change: its bytes without a checksum are counted.
    """
    return kept.has_crc and kept.state != "of RocketMQ"


def _is_uncovered(report: StoreReport | None) -> bool:
    return report is not None and report.uncovered_bytes > 0
