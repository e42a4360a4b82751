"""
A whole copy that the majority is against is replaced, under its writer.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from lib.command_line import segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Store
from pystore.segments.mend_plan import MendAction, plan_mending
from pystore.segments.mending import MendProgress, fill_store, mend_open
from pystore.segments.order import segment_digest
from pystore.segments.outvoted import OutvotedCopy, remove_seal, whole_digest
from pystore.segments.store_copy import StoreCopy
from pystore.store.sealer import seal_next


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """
    Two whole logs with different bytes.
    """
    made, good, other = (tmp_path / name for name in ("made", "good", "other"))
    fill(made, 300)
    seal(made)
    follow_from(made, good, 0)
    fill(other, 300, first=5)
    seal(other)
    return good, other


def test_an_outvoted_copy_gets_the_bytes_of_the_others(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """
    Its seal goes before, and the store seals the new bytes.
    """
    good, other = stores
    source, progress = StoreCopy(good), MendProgress()
    with Store(other) as store:
        remove_seal(other, SEGMENT)
        remove_seal(other, SEGMENT)
        own = OutvotedCopy(StoreCopy(other), SEGMENT)
        progress.begin(plan_mending(own, [source], SEGMENT))
        (step,) = progress.plan.steps
        assert MendAction.INSTALL is step.action
        fill_it = fill_store(store, nullcontext())
        mend_open(store, fill_it, progress.plan.steps, tmp_path / "kept", progress)
        while seal_next(store.log.writer):
            pass

    expected = segment_file(good, SEGMENT).read_bytes()
    assert expected == segment_file(other, SEGMENT).read_bytes()
    found, right = StoreCopy(other).seal(SEGMENT), source.seal(SEGMENT)
    assert found is not None
    assert right is not None
    assert right.block_digests == found.block_digests


def test_other_segments_of_it_are_as_they_are(stores: tuple[Path, Path]) -> None:
    """
    Only the one that was voted about counts as missing.
    """
    own = StoreCopy(stores[1])
    outvoted = OutvotedCopy(own, SEGMENT)

    assert ("", own.seal(0)) == (outvoted.problem(0), outvoted.seal(0))
    assert "the majority" in outvoted.problem(SEGMENT)
    assert outvoted.seal(SEGMENT) is None
    assert (own.name, own.facts) == (outvoted.name, outvoted.facts)
    assert own.block(0, 0) == outvoted.block(0, 0)
    assert own.damaged_blocks(0) == outvoted.damaged_blocks(0)


def test_the_digest_of_a_copy_is_that_of_its_seal(stores: tuple[Path, Path]) -> None:
    """
    Equal copies have equal ones; of a block that cannot be read there is none.
    """
    good, other = (StoreCopy(one) for one in stores)
    found = good.seal(SEGMENT)
    assert found is not None
    assert segment_digest(found.block_digests) == whole_digest(good, SEGMENT)
    assert whole_digest(other, SEGMENT) != whole_digest(good, SEGMENT)
    segment_file(stores[0], SEGMENT).unlink()
    shutil.rmtree(stores[0] / "meta" / "seals")

    assert "" == whole_digest(good, SEGMENT)
