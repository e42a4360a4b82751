"""
A store that cannot be opened gets what is missing above its settled end only where the
epochs prove that a copy has the bytes that were there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from lib.command_line import segment_file
from lib.segment_orders import ordered
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill

from pystore import Message, Store
from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, NotAStoreError
from pystore.fs.layout import EPOCH_FILE, META_NAME
from pystore.metastore.database import MetaStore
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.segments.mending import fill_store, mend_closed
from pystore.segments.order import OrderAction, OrderOutcome
from pystore.segments.order_run import OrderHooks, carry_out
from pystore.segments.order_target import ClosedTarget, OpenTarget, OrderTarget
from pystore.segments.store_copy import StoreCopy

CONFIRMED = SEGMENT + 100
HOLE = 3 * SEGMENT
ABOVE = HOLE + SEGMENT
_Epochs = list[tuple[int, int]]
_Changing = Callable[[], AbstractContextManager[object]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    The log of the set, some segments long.
    """
    root = tmp_path_factory.mktemp("set") / "log"
    fill(root, 900)
    return root


@pytest.fixture
def master(log: Path, tmp_path: Path) -> Path:
    """
    A replica that has settled all of it.
    """
    return replica(log, tmp_path / "master", 1)


@pytest.fixture
def behind(log: Path, tmp_path: Path) -> Path:
    """
    A replica that has all of it, and knows of little that it is settled.
    """
    return replica(log, tmp_path / "behind", 2, CONFIRMED)


def replica(
    log: Path, root: Path, broker_id: int, confirmed: int | None = None
) -> Path:
    """
    A closed store of a broker.
    """
    follow_from(log, root, 0, confirmed)
    with Store(root) as store, store.log.writer.metastore.change() as change:
        change.store_identity(BrokerIdentity("c", "b", broker_id))
    written(root, [(1, 0)])
    assert StoreCopy(root).facts.end > ABOVE + SEGMENT
    return root


def written(root: Path, epochs: _Epochs) -> None:
    """
    These masterships wrote the log.
    """
    table = EpochTable.of(epochs)
    with Store(root) as store:
        writer = store.log.writer
        with writer.metastore.change() as change:
            change.replace_epochs(table)
        writer.export_epochs(table)


def told(
    root: Path,
    source: Path,
    *,
    base: int = HOLE,
    action: OrderAction = OrderAction.REPAIR,
    target: OrderTarget | None = None,
    changing: _Changing = nullcontext,
) -> tuple[OrderOutcome, str]:
    """
    The end of an order to a store that cannot be opened.
    """

    def unheard(*_: object) -> None:
        """Of a run that is not watched."""

    hooks = OrderHooks(
        read=unheard,
        moved=unheard,
        found=unheard,
        digested=unheard,
        wait=unheard,
        pulling=nullcontext,
        installing=nullcontext,
    )
    target = target or ClosedTarget(root, 0, SEGMENT, changing)
    order = ordered(action, base, str(source))
    return carry_out(order, target, lambda one: StoreCopy(Path(one)), hooks)


def shorten(path: Path) -> None:
    """
    Half of a file is left.
    """
    path.write_bytes(path.read_bytes()[: SEGMENT // 2])


@pytest.mark.parametrize("damage", [Path.unlink, shorten])
def test_a_hole_is_filled_where_the_histories_agree(
    master: Path, behind: Path, damage: Callable[[Path], object]
) -> None:
    """
    Then the store opens, with all that it had, and nothing more is settled.
    """
    end = StoreCopy(behind).facts.end
    damage(segment_file(behind, HOLE))
    with pytest.raises(NotAStoreError):
        Store(behind)

    assert OrderOutcome.REPAIRED is told(behind, master)[0]
    good = segment_file(master, HOLE).read_bytes()
    assert good == segment_file(behind, HOLE).read_bytes()
    with Store(behind) as store:
        assert (end, CONFIRMED) == (store.log.end_offset, store.log.confirm_offset)
        assert store.log.recovery.is_clean


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        ([(1, 0), (2, ABOVE)], [(1, 0), (3, ABOVE)], ""),
        ([(1, 0), (2, ABOVE - 1)], [(1, 0), (3, ABOVE - 1)], f"part at {ABOVE - 1}"),
        ([(1, 0)], [(1, 0), (3, ABOVE - 1)], f"part at {ABOVE - 1}"),
        ([(1, 0), (2, ABOVE - 1)], [(1, 0)], f"part at {ABOVE - 1}"),
        ([(1, 0), (2, CONFIRMED)], [(1, 0), (3, CONFIRMED)], f"part at {CONFIRMED}"),
        ([(2, 0)], [(1, 0)], "part at 0"),
        ([], [(1, 0)], "no history is known"),
        ([(1, 0)], [], "no history is known"),
    ],
)
def test_a_tail_of_another_history_is_joined_to_nothing(
    master: Path, behind: Path, mine: _Epochs, theirs: _Epochs, why: str
) -> None:
    """
    The set may have cut what the replica has above the hole.
    """
    written(behind, mine)
    written(master, theirs)
    segment_file(behind, HOLE).unlink()
    outcome, detail = told(behind, master)

    assert why in detail
    assert (OrderOutcome.UNMENDED if why else OrderOutcome.REPAIRED) is outcome
    assert (not why) is segment_file(behind, HOLE).exists()


def test_a_source_gives_only_what_it_has_settled(log: Path, tmp_path: Path) -> None:
    """
    Both may still have to cut it.
    """
    one, other = (
        replica(log, tmp_path / name, number, CONFIRMED)
        for number, name in enumerate("ab", 1)
    )
    segment_file(one, HOLE).unlink()

    assert OrderOutcome.UNMENDED is told(one, other)[0]


def test_epochs_beside_which_another_program_wrote_prove_nothing(
    master: Path, behind: Path
) -> None:
    """
    It may have cut the log, and followed another master.
    """
    segment_file(behind, HOLE).unlink()
    (behind / EPOCH_FILE).write_text("1-0\n2-70\n")
    outcome, detail = told(behind, master)

    assert OrderOutcome.UNMENDED is outcome
    assert "not known: " in detail
    assert "another program" in detail


def test_epochs_of_a_restored_store_prove_nothing(
    master: Path, behind: Path, tmp_path: Path
) -> None:
    """
    Its segments may be younger than its metadata.
    """
    restored = tmp_path / "restored"
    shutil.copytree(behind, restored)
    segment_file(restored, HOLE).unlink()
    outcome, detail = told(restored, master)

    assert OrderOutcome.UNMENDED is outcome
    assert "a copy or a restore" in detail


@pytest.mark.parametrize(
    ("intent", "outcome"),
    [
        (HOLE, OrderOutcome.GONE),
        (ABOVE - 1, OrderOutcome.UNMENDED),
        (ABOVE, OrderOutcome.REPAIRED),
    ],
)
def test_what_a_cut_is_removing_is_no_hole(
    master: Path, behind: Path, intent: int, outcome: OrderOutcome
) -> None:
    """
    A kill interrupted it: the next opening finishes it.
    """
    metastore = MetaStore.open(behind / META_NAME)
    with metastore, metastore.change() as change:
        change.intend_cut(intent)
    segment_file(behind, HOLE).unlink()

    assert outcome is told(behind, master)[0]


def test_what_the_log_ended_in_is_not_filled(master: Path, behind: Path) -> None:
    """
    The rest of that segment is of no epoch that is known here.
    """
    end = StoreCopy(behind).facts.end
    last = end - end % SEGMENT
    with Store(master) as store:
        while store.log.end_offset < last + 2 * SEGMENT:
            fill_record(store)
        store.log.writer.log.confirm(store.log.end_offset)
    segment_file(behind, last).unlink()
    outcome, detail = told(behind, master, base=last)

    assert OrderOutcome.UNMENDED is outcome
    assert f"this log ended at {end}, within the segment" in detail


def fill_record(store: Store) -> None:
    """
    One more record.
    """
    store.log.append(Message("t", b"x" * 1000))


def test_what_is_there_above_the_settled_end_stays_as_it_is(
    master: Path, behind: Path
) -> None:
    """
    Replication compares it, and cuts what differs; a hole of a store that is open comes
    in the same way.
    """
    assert OrderOutcome.GONE is told(behind, master)[0]
    segment_file(behind, HOLE).unlink()
    for action in (OrderAction.CHECK, OrderAction.FILL):
        assert OrderOutcome.GONE is told(behind, master, action=action)[0]


def test_an_open_store_gets_nothing_above_its_settled_end(
    master: Path, behind: Path
) -> None:
    """
    A link may be cutting it.
    """
    with Store(behind) as store:
        target = OpenTarget(store, fill_store(store, nullcontext()))
        segment_file(behind, HOLE).unlink()
        assert OrderOutcome.GONE is told(behind, master, target=target)[0]


def test_a_log_that_was_cut_since_the_plan_gets_nothing(
    master: Path, behind: Path
) -> None:
    """
    By another process, before the copy came.
    """
    path = segment_file(behind, HOLE)
    good = path.read_bytes()
    path.unlink()

    @contextmanager
    def repaired() -> Iterator[None]:
        path.write_bytes(good)
        yield

    @contextmanager
    def cut() -> Iterator[None]:
        path.write_bytes(good)
        written(behind, [(1, 0), (2, CONFIRMED)])
        path.unlink()
        yield

    with pytest.raises(InvalidError, match="is there again"):
        told(behind, master, changing=repaired)
    path.unlink()
    with pytest.raises(InvalidError, match=f"part at {CONFIRMED}"):
        told(behind, master, changing=cut)
    assert not path.exists()


def test_an_operator_s_repair_fills_the_hole_or_says_why_not(
    master: Path, behind: Path, tmp_path: Path
) -> None:
    """
    As an order.
    """
    segment_file(behind, HOLE).unlink()
    written(master, [(1, 0), (3, HOLE)])
    (left,) = mend_closed(behind, [StoreCopy(master)], tmp_path / "kept").unmended
    assert HOLE == left.base
    assert f"part at {HOLE}" in left.refusals[0]
    written(master, [(1, 0)])
    done = mend_closed(behind, [StoreCopy(master)], tmp_path / "kept")
    assert [HOLE] == [one.base for one in done.done]
    with Store(behind) as store:
        assert store.log.recovery.is_clean
