"""
A plan names what heals each damage, in the order of loss.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lib.command_line import overwrite, segment_file
from lib.store.pairs import SEGMENT, Pair, fill, seal

from pystore import CommitLog
from pystore.doctor.plan import HealingPlan, make_plan
from pystore.verify import verify_store


def plan(pair: Pair, *replicas: Path) -> HealingPlan:
    """
    Returns the plan of the damaged store.
    """
    return make_plan(pair.store, verify_store(pair.store), replicas)


def test_a_whole_store_needs_no_step(pair: Pair) -> None:
    """
    Also with a replica.
    """
    assert HealingPlan(()) == plan(pair, pair.copy)


def test_the_steps_come_in_the_order_of_loss(pair: Pair) -> None:
    """
    A queue and a seal are built again, a range comes from the replica.
    """
    seal(pair.store)
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    overwrite(segment_file(pair.store, 2 * SEGMENT), 800, b"????")
    overwrite(next((pair.store / "consumequeue/t0/0").iterdir()), 100, b"????")
    overwrite(next((pair.store / "meta/seals").iterdir()), 30, b"????")
    found = plan(pair, pair.copy)

    assert ["rebuild", "seal again", "replica", "replica"] == [
        step.heal for step in found.steps
    ]
    assert 0 == found.lost_bytes


def test_what_no_replica_has_is_cut_at_the_lowest_damage(pair: Pair) -> None:
    """
    The loss is everything behind it, in a store of a set.
    """
    with CommitLog(pair.store) as log:
        log.begin_epoch(1)
    end = verify_store(pair.store).end_offset
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    overwrite(segment_file(pair.store, 2 * SEGMENT), 800, b"????")
    (step,) = plan(pair).steps

    assert "cut" == step.heal
    assert step.offset is not None
    assert SEGMENT <= step.offset < 2 * SEGMENT
    assert end - step.offset == step.lost_bytes
    assert 2 == len(step.damages)


def test_a_second_replica_gives_what_the_first_one_has_not(
    pair: Pair, tmp_path: Path
) -> None:
    """
    The refusal of the first one is not told, since nothing is missing.
    """
    second = tmp_path / "second"
    shutil.copytree(pair.copy, second)
    for root in (pair.store, pair.copy):
        overwrite(segment_file(root, SEGMENT), 800, b"????")
    found = plan(pair, pair.copy, second)

    assert [second] == [step.source for step in found.steps]
    assert () == found.refusals


def test_a_store_with_other_records_is_refused_with_a_reason(
    pair: Pair, tmp_path: Path
) -> None:
    """
    Its bytes beside the range are others.
    """
    fill(tmp_path / "other", first=1000)
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    found = plan(pair, tmp_path / "other")

    assert ["filler"] == [step.heal for step in found.steps]
    assert tmp_path / "other" == found.refusals[0].source
    assert found.refusals[0].reason


def test_what_an_opening_writes_again_is_built_again_and_metadata_is_not(
    pair: Pair,
) -> None:
    """
    The checkpoint and the live page only say what is known elsewhere.
    """
    for name in ("checkpoint", "meta/live"):
        with (pair.store / name).open("r+b") as file:
            file.truncate(100)
        paths = [(step.heal, step.path) for step in plan(pair).steps]
        assert ("rebuild", pair.store / name) in paths

    (pair.store / "meta/lmdb/data.mdb").unlink()
    assert "by hand" in [step.heal for step in plan(pair).steps]


def test_a_missing_segment_comes_from_a_replica_or_by_hand(pair: Pair) -> None:
    """
    An opening for writing refuses it, so that no loss is offered.
    """
    path = segment_file(pair.store, SEGMENT)
    path.unlink()
    (step,) = plan(pair, pair.copy).steps
    assert ("replica", path, SEGMENT, 2 * SEGMENT) == (
        step.heal,
        step.path,
        step.offset,
        step.end,
    )
    found = plan(pair)
    assert [("by hand", path)] == [(one.heal, one.path) for one in found.steps]
    assert 0 == found.lost_bytes
