"""
The epoch table against RocketMQ's own histories and against labelled bytes.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pystore.epochs.table import NO_END, EpochEntry, EpochRange, EpochTable
from pystore.errors import InvalidError

GOLDEN = Path(__file__).parents[2] / "golden" / "epoch"


def histories() -> list[dict[str, Any]]:
    """Every operation with the entries Java had before and after it."""
    steps = []
    with gzip.open(GOLDEN / "histories.jsonl.gz", "rt") as lines:
        for line in lines:
            case = json.loads(line)
            before: list[list[int]] = []
            for op in case["ops"]:
                steps.append({**op, "case": case["case"], "before": before})
                before = op["entriesAfter"]
    return steps


def table_of(entries: list[list[int]]) -> EpochTable:
    """The table of entries as the golden files list them."""
    return EpochTable.of((entry[0], entry[1]) for entry in entries)


def steps_of(*names: str) -> list[dict[str, Any]]:
    """The operations of these names, at least one."""
    steps = [step for step in histories() if step["op"] in names]
    assert steps, names
    return steps


class TestAgainstRocketMQ:
    """Each operation starts from the entries that Java had."""

    def test_append_agrees_but_for_equal_starts(self) -> None:
        """RMQ-R137: with an equal start Java refuses, we replace the empty entry."""
        replaced = 0
        for step in steps_of("append"):
            table = table_of(step["before"])
            epoch, start = step["epoch"], step["startOffset"]
            last = table.entries[-1] if table.entries else None
            if last and epoch > last.epoch and start == last.start_offset:
                assert step["result"] is False
                expected = [*table.pairs()[:-1], (epoch, start)]
                assert expected == table.append(epoch, start).pairs()
                replaced += 1
            elif step["result"]:
                expected = [(e, s) for e, s, _ in step["entriesAfter"]]
                assert expected == table.append(epoch, start).pairs()
            else:
                with pytest.raises(InvalidError, match=f"epoch {epoch} "):
                    table.append(epoch, start)
        assert replaced > 0

    def test_the_last_epoch_agrees(self) -> None:
        """The last epoch is the newest one, -1 without entries."""
        for step in histories():
            table = table_of(step["entriesAfter"])
            assert step["lastEpochAfter"] == table.last_epoch, step

    def test_cutting_the_suffix_agrees_and_leaves_the_last_entry_open(self) -> None:
        """RMQ-R141: the entries agree; Java's last one may keep its old end."""
        stale = 0
        for step in steps_of("truncateSuffixByOffset", "truncateSuffixByEpoch"):
            table = table_of(step["before"])
            if "offset" in step:
                cut = table.cut_suffix(step["offset"])
            else:
                cut = table.cut_suffix_from_epoch(step["epoch"])
            assert [(e, s) for e, s, _ in step["entriesAfter"]] == cut.pairs(), step
            if cut.entries:
                assert cut.end_of(cut.entries[-1]) == NO_END
                stale += step["entriesAfter"][-1][2] != NO_END
        assert stale > 0

    def test_cutting_the_prefix_agrees_but_for_stale_ends(self) -> None:
        """RMQ-R141: where Java's last end is stale it may drop the last entry."""
        stale = 0
        for step in steps_of("truncatePrefixByOffset"):
            ours = table_of(step["before"]).cut_prefix(step["offset"]).pairs()
            java = [(e, s) for e, s, _ in step["entriesAfter"]]
            if step["before"] and step["before"][-1][2] <= step["offset"]:
                assert java == []
                assert [tuple(step["before"][-1][:2])] == ours
                stale += 1
            else:
                assert java == ours, step
        print("stale ends met:", stale)

    def test_find_agrees_but_for_stale_ends(self) -> None:
        """
        RMQ-R140, RMQ-R141: the entry that covers the offset; our last one is open.
        """
        for step in steps_of("findEpochEntryByOffset"):
            found = table_of(step["before"]).find(step["offset"])
            last_end = step["before"][-1][2] if step["before"] else NO_END
            if step["result"] is None and step["offset"] >= last_end:
                assert found == EpochEntry(*step["before"][-1][:2])
            elif step["result"] is None:
                assert found is None, step
            else:
                assert EpochEntry(*step["result"][:2]) == found

    def test_next_after_agrees(self) -> None:
        """RMQ-R140: the smallest epoch above the given one."""
        for step in steps_of("nextEntry"):
            following = table_of(step["before"]).next_after(step["epoch"])
            if step["result"] is None:
                assert following is None
            else:
                assert EpochEntry(*step["result"][:2]) == following

    def test_consistent_points_agree_but_for_entries_above_an_end(self) -> None:
        """RMQ-R144: Java compares entries above a log's end, we drop them first."""
        above = 0
        with (GOLDEN / "consistent-point.jsonl").open() as lines:
            for line in lines:
                case = json.loads(line)
                local = EpochTable.of(case["local"])
                other = EpochTable.of(case["other"])
                ends = case["localMaxOffset"], case["otherMaxOffset"]
                point = local.consistent_point(other, *ends)
                assert point == other.consistent_point(local, *reversed(ends))
                java = case["consistentPoint"]
                dropped = local.drop_above(ends[0]), other.drop_above(ends[1])
                if dropped == (local, other):
                    assert java == (-1 if point is None else point), case
                else:
                    above += 1
                    assert point == dropped[0].consistent_point(dropped[1], *ends)
                    assert point is None or point <= min(ends)
        assert above > 0


@pytest.mark.parametrize(
    ("local", "local_end", "other", "other_end", "point"),
    [
        ([(1, 100), (2, 300), (3, 500)], 700, [(1, 100), (2, 300), (3, 500)], 600, 600),
        ([(1, 100), (2, 300), (3, 500)], 700, [(1, 100), (2, 300), (3, 450)], 600, 450),
        ([(1, 100), (2, 300), (3, 500)], 700, [(1, 200), (2, 500)], 600, None),
        (
            [(1, 100), (2, 300), (3, 500), (4, 800)],
            900,
            [(1, 100), (2, 300), (3, 500)],
            700,
            700,
        ),
        ([(2, 1000)], 0, [(2, 1000)], 7777, None),
        ([(1, 0), (2, 1000)], 400, [(1, 0), (2, 1000)], 7777, 400),
        ([], 0, [(1, 0)], 10, None),
    ],
)
def test_the_consistent_points_that_the_rules_name(
    local: list[tuple[int, int]],
    local_end: int,
    other: list[tuple[int, int]],
    other_end: int,
    point: int | None,
) -> None:
    """
    The examples of RMQ-R146, and of RMQ-R144 where Java answers above its own end.
    """
    ours, theirs = EpochTable.of(local), EpochTable.of(other)
    assert point == ours.consistent_point(theirs, local_end, other_end)


def test_an_idle_set_that_changes_masters_finds_its_divergence() -> None:
    """
    RMQ-R137: an epoch without bytes is replaced, so that no two logs share an entry.
    """
    stale = EpochTable.of([(1, 0)])
    elected = stale.append(2, 0)
    assert [(2, 0)] == elected.pairs()
    assert stale.consistent_point(elected, 500, 900) is None


def test_an_epoch_is_never_moved() -> None:
    """RMQ-R152: the same epoch again is refused, at whatever start."""
    table = EpochTable.of([(1, 0), (2, 1000)])
    for start in (500, 1000, 5000):
        with pytest.raises(InvalidError, match="epoch 2 is not above the last epoch 2"):
            table.append(2, start)


def test_a_start_below_the_last_one_is_refused() -> None:
    """A mastership cannot begin below an older one."""
    with pytest.raises(InvalidError, match=r"would start at 999, below .* epoch 2"):
        EpochTable.of([(1, 0), (2, 1000)]).append(3, 999)


def test_a_lookup_above_a_cut_finds_the_last_entry() -> None:
    """RMQ-R141: after a cut the last entry has no end again."""
    table = EpochTable.of([(1, 0), (2, 1000)]).cut_suffix(1000)
    assert EpochEntry(1, 0) == table.find(5000)


def test_entries_above_the_end_are_dropped_and_one_at_the_end_stays() -> None:
    """RMQ-R144: an entry at the end waits for its first byte, one above is void."""
    table = EpochTable.of([(1, 0), (2, 1000), (3, 1001)])
    assert [(1, 0), (2, 1000)] == table.drop_above(1000).pairs()


def test_epochs_have_64_bits() -> None:
    """Java's epochs have 32."""
    table = EpochTable().append(2**31, 0).append(2**62, 5)
    assert 2**62 == table.last_epoch


@pytest.mark.parametrize(
    "pairs", [[(2, 0), (1, 5)], [(1, 5), (2, 5)], [(-1, 0)], [(1, 2**63)]]
)
def test_a_table_that_does_not_ascend_is_refused(pairs: list[tuple[int, int]]) -> None:
    """Neither epochs nor starts may repeat or fall, and none is negative."""
    with pytest.raises(InvalidError, match=r"does not follow|not in 0"):
        EpochTable.of(pairs)


def test_the_ranges_have_the_epoch_of_each_byte() -> None:
    """Limited to the given range; an epoch without bytes in it is left out."""
    table = EpochTable.of([(1, 100), (3, 200), (4, 300)])
    assert (EpochRange(1, 100, 200), EpochRange(3, 200, 250)) == table.ranges(0, 250)
    assert (EpochRange(3, 299, 300), EpochRange(4, 300, 301)) == table.ranges(299, 301)
    assert () == table.ranges(0, 100)


def test_the_end_of_a_foreign_entry_is_refused() -> None:
    """An entry of another table has no end here."""
    with pytest.raises(InvalidError, match="epoch 7 is not in the table"):
        EpochTable.of([(1, 0)]).end_of(EpochEntry(7, 0))


@pytest.mark.parametrize(
    ("imported", "min_offset", "cut"),
    [
        ([(1, 0), (2, 500), (3, 900)], 0, None),
        ([(1, 0), (2, 500), (3, 900), (4, 950)], 0, None),
        ([(1, 0), (2, 500)], 0, 900),
        ([(1, 0)], 0, 500),
        ([(1, 0), (2, 500), (5, 1200)], 0, 900),
        ([(1, 0), (2, 500), (4, 700)], 0, None),
        ([(1, 0), (2, 500), (4, 900)], 0, None),
        ([(2, 500), (3, 900)], 500, None),
        ([(2, 500), (3, 900)], 499, 0),
    ],
)
def test_an_import_cuts_where_it_lacks_an_entry(
    imported: list[tuple[int, int]], min_offset: int, cut: int | None
) -> None:
    """A10: cut at our first missing entry, unless the import relabels it."""
    ours = EpochTable.of([(1, 0), (2, 500), (3, 900)])
    assert cut == ours.cut_for_import(EpochTable.of(imported), min_offset)


Byte = tuple[int, int]
"""One byte of a log: the epoch that wrote it, and a number of its own."""


class Replica:
    """A log in which each byte has its epoch, and its epoch table."""

    def __init__(self) -> None:
        self.log: list[Byte] = []
        self.table = EpochTable()

    def follow(self, master: Replica) -> None:
        """Cut to the consistent point, which must be the first difference."""
        end = len(self.log)
        point = self.table.consistent_point(master.table, end, len(master.log)) or 0
        assert self.log[:point] == master.log[:point]
        common = 0
        for ours, theirs in zip(self.log, master.log, strict=False):
            if ours != theirs:
                break
            common += 1
        assert common == point
        self.log[point:] = master.log[point:]
        self.table = self.table.cut_suffix(point)
        for entry in master.table.drop_above(len(master.log)).entries:
            if entry.epoch > self.table.last_epoch:
                self.table = self.table.append(entry.epoch, entry.start_offset)


class ThreeReplicas(RuleBasedStateMachine):
    """
    Masters that begin, end and still write alone, and slaves that follow any of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replicas = [Replica(), Replica(), Replica()]
        self.epoch = 0
        self.count = 0
        self.masters: dict[int, int] = {}

    @rule(index=st.integers(0, 2), gap=st.integers(1, 3))
    def elect(self, index: int, gap: int) -> None:
        """The previous master does not learn of it."""
        self.epoch += gap
        replica = self.replicas[index]
        replica.table = replica.table.append(self.epoch, len(replica.log))
        self.masters[index] = self.epoch

    @rule(index=st.integers(0, 2), size=st.integers(1, 4))
    def write(self, index: int, size: int) -> None:
        """A master writes, also one that was replaced and has not learned of it."""
        replica = self.replicas[index]
        if index not in self.masters:
            return
        for _ in range(size):
            self.count += 1
            replica.log.append((self.masters[index], self.count))

    @rule(slave=st.integers(0, 2), master=st.integers(0, 2))
    def follow(self, slave: int, master: int) -> None:
        """A slave ends its own mastership and copies the master's log."""
        if slave != master and master in self.masters:
            self.masters.pop(slave, None)
            self.replicas[slave].follow(self.replicas[master])

    @invariant()
    def every_byte_is_labelled_by_its_epoch(self) -> None:
        """The table names the epoch that wrote each byte."""
        for replica in self.replicas:
            for offset, (epoch, _) in enumerate(replica.log):
                found = replica.table.find(offset)
                assert found is not None
                assert epoch == found.epoch


TestThreeReplicas = ThreeReplicas.TestCase
TestThreeReplicas.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), max_size=60).map(sorted),
    cuts=st.tuples(st.integers(0, 70), st.integers(0, 70)),
)
def test_cuts_keep_the_epochs_of_the_remaining_bytes(
    labels: list[int], cuts: tuple[int, int]
) -> None:
    """Cutting a table by offset equals cutting the epochs of its bytes."""
    table = EpochTable()
    for offset, label in enumerate(labels):
        if label > table.last_epoch:
            table = table.append(label, offset)
    first, end = min(cuts), max(cuts)
    kept = table.cut_suffix(end).cut_prefix(first)
    for offset in range(first, min(end, len(labels))):
        found = kept.find(offset)
        assert found is not None
        assert labels[offset] == found.epoch
    assert all(entry.start_offset < end for entry in kept.entries)
