"""
Decides what an opening for writing does, and changes nothing.

`inspect` is the dry run; `pystore.store.commit_log.CommitLog` carries out the result of
`plan`. The order of the decisions is that of docs/crash-safety.md: has another program
changed the store (A7, A15), is a cut unfinished (A3), is the clean mark valid (A9), and
if not, where does the log end and is that end torn or damaged (A5, A6, A8), and what
follows from imported epochs (A10).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pystore.epochs.table import EpochTable
from pystore.metastore.schema import BOUNDS, CUT, EPOCHS, IDENTITY, POSITIONS
from pystore.metastore.transaction import ReadTransaction
from pystore.metastore.values import (
    Bounds,
    CleanMark,
    CutState,
    Identity,
    QueueOffsets,
)
from pystore.recovery.foreign_writer import Import, changed_exports
from pystore.recovery.rocketmq import gather_evidence, rocketmq_end
from pystore.recovery.segments import nonzero_end
from pystore.recovery.state import (
    RecoveryInput,
    reasons_against,
    text_of_stranded,
)
from pystore.recovery.stored_bounds import (
    bounds_of,
    clean_mark,
    lost_beginning,
    stored_end,
)
from pystore.recovery.survey import Survey, survey_evidence, survey_ours
from pystore.recovery.torn_tail import Bound, Corrupt, Evidence, Verdict, Whole
from pystore.stored_names import stored

__all__ = ["RecoveryPlan", "evidence_of", "is_adopted", "plan"]

NO_BOUNDS = Bounds()


@stored
@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """
    What an opening for writing finds and does.

    Attributes:
        reasons: how another program changed the store; empty if none did.
        is_new: there was no ``meta/``.
        is_clean: the clean mark is valid, and nothing was scanned.
        survey: the result of the scan.
        min_offset: the offset of the first byte.
        end_offset: the end of the log afterwards.
        synced_end: the end of what is certainly durable, at most the end.
        confirm_offset: the confirm offset, at most the end.
        bound: no record below this offset may be bad.
        bound_name: the source of that bound.
        epochs: the epoch table afterwards.
        identity: the identity of the broker.
        imported: the content of RocketMQ's files, if another program changed the
            store.
        import_cut: where imported epochs cut the log (A10), or ``None``.
        intent: the offset of a cut that is finished first (A3), or ``None``.
        cut: the state of cuts.
        cut_bytes: the bytes above the end, which will be removed.
        cut_reason: why they are removed; empty if nothing is cut.
        rule: the rule of docs/crash-safety.md that decided the end.
        positions: the queue offsets, as far as they are still valid.
        rocketmq_end: the end that RocketMQ would find; ``None``: not requested.
        stranded: base offsets of the segments after a missing one; they hold no record
            and will be removed (A2).
        is_exact: whether the end is the published end of this boot and mount: the bytes
            above it were never acknowledged (A19).
    """

    reasons: tuple[str, ...]
    is_new: bool
    is_clean: bool
    survey: Survey
    min_offset: int
    end_offset: int
    synced_end: int
    confirm_offset: int
    bound: int
    bound_name: str
    epochs: EpochTable
    identity: Identity
    imported: Import | None
    import_cut: int | None
    intent: int | None
    cut: CutState
    cut_bytes: int
    cut_reason: str
    rule: str
    positions: QueueOffsets
    rocketmq_end: int | None
    stranded: tuple[int, ...] = ()
    is_exact: bool = False

    @property
    def corrupt(self) -> Corrupt | None:
        """
        The damage that prevents an opening for writing, or ``None``.
        """
        verdict = self.survey.verdict
        return verdict if isinstance(verdict, Corrupt) else None


def plan(recovery_input: RecoveryInput, *, with_rocketmq: bool = False) -> RecoveryPlan:
    """
    Decides what an opening for writing does.

    Args:
        recovery_input: the state of the store.
        with_rocketmq: also find the end that RocketMQ would find.

    Raises:
        FormatError: a file of the root cannot be read and another program wrote
            it, or a value of the metastore has a wrong digest.
        NotAStoreError: the size of a segment has changed.
        CorruptError: a consume queue cannot be read.
    """
    view = recovery_input.view
    reasons = reasons_against(recovery_input)
    if view is not None and not reasons:
        if mark := clean_mark(recovery_input, view):
            made = _plan_clean(recovery_input, view, mark)
        else:
            made = _plan_ours(recovery_input, view)
    else:
        made = _plan_foreign(recovery_input, reasons)
    made = _with_lost_beginning(recovery_input, made)
    made = _with_cut_bytes(recovery_input, made)
    if with_rocketmq:
        stranded = recovery_input.segments.stranded
        end = rocketmq_end(
            recovery_input.segments, recovery_input.opening, *stranded[:1]
        )
        made = replace(made, rocketmq_end=end)
    return made


def _plan_clean(
    recovery_input: RecoveryInput, view: ReadTransaction, mark: CleanMark
) -> RecoveryPlan:
    end = mark.end_offset
    store_ms = 0
    if mark.last_offset is not None:
        store_ms = recovery_input.segments.log.read(mark.last_offset).store_ms
    survey = Survey(Whole(end), end, end, 0, 0, 0, store_ms, mark.last_offset, "")
    return _base(recovery_input, view, survey, Bound(end, "clean mark"), is_clean=True)


def _plan_ours(recovery_input: RecoveryInput, view: ReadTransaction) -> RecoveryPlan:
    """
    The bounds of pystore are valid.
    """
    ours = bounds_of(recovery_input, view)
    bound, limit = ours.bound, ours.limit
    segments = recovery_input.segments
    start = segments.base_of(min(view.read(BOUNDS).synced_end, bound.offset))
    if not segments.bases:
        start = 0  # every segment is gone: no record is whole below the bound
    if limit < start:
        # All of a log that began above 0 is cut: nothing of it is scanned.
        survey = Survey(Whole(limit), limit, limit, 0, 0, 0, 0, None, "")
    else:
        survey = survey_ours(segments, bound, start, limit)
    made = _base(recovery_input, view, survey, bound, is_clean=False)
    if ours.is_exact and ours.intent is None and made.end_offset == limit:
        made = replace(made, is_exact=True)
    synced = min(ours.synced_end, made.end_offset)
    return replace(made, synced_end=synced, intent=ours.intent)


def _plan_foreign(recovery_input: RecoveryInput, reasons: list[str]) -> RecoveryPlan:
    """
    The bounds of pystore are void or missing: RocketMQ's evidence decides (A8), and
    what pystore stored stays evidence (A16).
    """
    evidence = evidence_of(recovery_input)
    survey = survey_evidence(recovery_input.segments, recovery_input.queues, evidence)
    view = recovery_input.view
    imported = recovery_input.found.read()
    bound = Bound(evidence.bound, evidence.stored_name or "RocketMQ's evidence")
    made = _base(recovery_input, view, survey, bound, is_clean=False)
    # The bytes that RocketMQ would not scan were on disk long before.
    synced = evidence.start_offset if evidence.is_abort else made.end_offset
    made = replace(
        made,
        reasons=tuple(reasons),
        imported=imported,
        identity=imported.identity if imported.identity is not None else made.identity,
        synced_end=min(synced, made.end_offset),
        confirm_offset=min(
            recovery_input.opening.times.confirm_offset, made.end_offset
        ),
        positions=_lower_bounds(made.positions, view),
        cut=replace(made.cut, intent=None),
    )
    return _with_copied_cut(recovery_input, _with_imported_epochs(made, imported))


def _lower_bounds(
    positions: QueueOffsets, view: ReadTransaction | None
) -> QueueOffsets:
    """
    The stored queue offsets as lower bounds: the records must be looked at, too. No
    queue offset is given twice, whichever program wrote (A16).
    """
    marks = positions.next_offsets
    if view is not None:
        marks = view.marks(POSITIONS).next_offsets
    return QueueOffsets(0, marks)


def evidence_of(recovery_input: RecoveryInput) -> Evidence:
    """
    The evidence about the end of a log without valid bounds (A8, A16).
    """
    evidence = gather_evidence(
        recovery_input.segments, recovery_input.queues, recovery_input.opening
    )
    view = recovery_input.view
    stored = stored_end(recovery_input, view) if view is not None else None
    if stored is None:
        return evidence
    return replace(evidence, stored_end=stored.offset, stored_name=stored.name)


def _with_lost_beginning(
    recovery_input: RecoveryInput, made: RecoveryPlan
) -> RecoveryPlan:
    """
    Segments at the beginning are missing, and no retention explains it (A16).
    """
    view = recovery_input.view
    if view is None or made.corrupt is not None:
        return made
    lost = lost_beginning(recovery_input, view)
    if lost is None:
        return made
    stored, now = lost
    reason = f"the log begins at {now}, but its stored beginning is {stored}"
    verdict = Corrupt(made.end_offset, stored, reason, "A16")
    return replace(
        made,
        is_clean=False,
        survey=replace(made.survey, verdict=verdict),
        cut_reason=reason,
        rule="A16",
    )


def _with_copied_cut(recovery_input: RecoveryInput, made: RecoveryPlan) -> RecoveryPlan:
    """
    In a copy of a store, an unfinished cut is finished, if no other program wrote to it
    (A3, A15): copying does not bring back bytes that a master ordered to cut.
    """
    view = recovery_input.view
    end = view.read(CUT).intent if view is not None else None
    if view is None or end is None or end >= made.end_offset:
        return made
    if changed_exports(view, recovery_input.found) or made.corrupt is not None:
        return made
    return replace(
        made,
        end_offset=end,
        synced_end=min(made.synced_end, end),
        confirm_offset=min(made.confirm_offset, end),
        epochs=made.epochs.drop_above(end),
        cut_reason="a cut is finished first",
        rule="A3",
    )


def _with_imported_epochs(made: RecoveryPlan, imported: Import) -> RecoveryPlan:
    """
    An imported epoch table is used, and may show that the other program cut the log
    (A10).
    """
    if imported.epochs is None:
        return made
    end = made.end_offset
    cut = made.epochs.cut_for_import(imported.epochs, made.min_offset)
    if cut is not None and cut < end:
        end = max(cut, made.min_offset)
        # An ordered cut: the numbers of what it removes are given again.
        made = replace(made, import_cut=end, rule="A10", positions=QueueOffsets())
        reason = "the imported epoch table does not have the epoch that starts here"
        made = replace(made, cut_reason=reason)
    return replace(
        made,
        end_offset=end,
        synced_end=min(made.synced_end, end),
        confirm_offset=min(made.confirm_offset, end),
        epochs=imported.epochs.drop_above(end),
    )


def _base(
    recovery_input: RecoveryInput,
    view: ReadTransaction | None,
    survey: Survey,
    bound: Bound,
    *,
    is_clean: bool,
) -> RecoveryPlan:
    """
    The plan by the values in LMDB.
    """
    end = survey.end_offset
    bases = recovery_input.segments.bases
    bounds = view.read(BOUNDS) if view else NO_BOUNDS
    times = recovery_input.opening.times
    confirm = max(bounds.confirm_offset, 0) if view else times.confirm_offset
    verdict = survey.verdict
    reason, rule = (
        ("", "") if isinstance(verdict, Whole) else (verdict.reason, verdict.rule)
    )
    positions = view.marks(POSITIONS) if view else QueueOffsets()
    epochs = view.read(EPOCHS) if view else EpochTable()
    return RecoveryPlan(
        reasons=(),
        is_new=view is None,
        is_clean=is_clean,
        survey=survey,
        min_offset=bases[0] if bases else min(end, 0),
        end_offset=end,
        synced_end=end,
        confirm_offset=min(confirm, end),
        bound=bound.offset,
        bound_name=bound.name,
        epochs=epochs.drop_above(end),
        identity=view.read(IDENTITY) if view else None,
        imported=None,
        import_cut=None,
        intent=None,
        cut=view.read(CUT) if view else CutState(),
        cut_bytes=0,
        cut_reason=reason,
        rule=rule,
        positions=_valid_positions(positions, end, verdict),
        rocketmq_end=None,
        stranded=tuple(recovery_input.segments.stranded),
    )


def _valid_positions(
    positions: QueueOffsets, end: int, verdict: Verdict
) -> QueueOffsets:
    if positions.as_of <= end:
        return positions
    if isinstance(verdict, Corrupt):
        # Lost records keep their queue offsets: none is given again.
        return QueueOffsets(0, positions.next_offsets)
    return QueueOffsets()


def _with_cut_bytes(recovery_input: RecoveryInput, made: RecoveryPlan) -> RecoveryPlan:
    if made.is_clean:
        return made
    end = made.end_offset
    above = nonzero_end(recovery_input.root, recovery_input.segments, end) - end
    if made.stranded and not made.cut_reason and not above:
        return replace(made, cut_reason=text_of_stranded(made.stranded), rule="A2")
    if above == 0 and made.corrupt is None:
        return replace(made, cut_reason=made.cut_reason if made.import_cut else "")
    reason, rule = made.cut_reason, made.rule
    if not reason:
        # The scan ended at zeros or at a cut, and more bytes follow.
        reason, rule = "there are bytes after the end", "A2"
        if made.intent is not None:
            reason, rule = "a cut is finished first", "A3"
        elif made.is_exact:
            reason, rule = "no append of these bytes was acknowledged", "A19"
    return replace(made, cut_bytes=above, cut_reason=reason, rule=rule)


def is_adopted(made: RecoveryPlan) -> bool:
    """
    Whether the values in the metastore do not describe the store as it is.
    """
    return made.is_new or bool(made.reasons)
