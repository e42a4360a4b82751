"""
Every workload, crashed everywhere: real processes, recorded; power cuts, modelled.

`CRASH_STATES` is the number of checked states of each workload, `CRASH_SEED`
repeats a run.
"""

from __future__ import annotations

import pytest
from crash.proof import Proof

WORKLOADS = [
    ("", "first_start"),
    ("some", "append"),
    ("some", "roll"),
    ("segments", "cut"),
    ("segments", "cut_at_bases"),
    ("some", "clean"),
    ("some", "epochs"),
    ("some", "exports"),
    ("segments", "retention"),
    ("queues", "queues"),
    ("segments", "seal"),
    ("queues", "fill"),
    ("segments", "mend"),
    ("some", "threads"),
    ("some", "slave"),
    ("some", "resync"),
]


@pytest.mark.parametrize(("before", "workload"), WORKLOADS)
def test_a_crash_anywhere_keeps_every_promise(
    proof: Proof, before: str, workload: str
) -> None:
    """The store opens with the acknowledged records, no others, and takes appends."""
    if before:
        proof.prepare(before)
    child = proof.record(workload)
    assert 0 == child.code, child.output
    proof.look(child)


@pytest.mark.parametrize(
    ("before", "workload"),
    [("some", "roll"), ("segments", "cut"), ("queues", "queues")],
)
def test_so_it_does_where_no_range_can_be_zeroed(
    proof: Proof, before: str, workload: str
) -> None:
    """A hole is punched instead, and its space taken again before an append."""
    proof.prepare(before)
    child = proof.record(workload, zero_range=False)
    assert 0 == child.code, child.output
    proof.look(child)
