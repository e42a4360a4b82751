"""
The sets of one term: decided, committed, then applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lib.controller.broker_set_driver import start

from pystore.controller.model.codec import encode
from pystore.controller.model.commands import (
    ApplyId,
    Command,
    DeleteSet,
    GetNextId,
    Register,
)
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetKey, SetState
from pystore.controller.server.broker_sets import BrokerSets, CommandOutcome, NotLeading
from pystore.controller.server.record_keys import LEADER, set_key
from pystore.controller.server.store_threads import StoreThreads
from pystore.errors import (
    FormatError,
    FullError,
    InvalidError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.lmdb_row import Row
from pystore.records.lmdb_store import LmdbStore
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import Put
from pystore.records.record_store import RecordStore

SET = ("cluster", "set")
ID = ApplyId(1, "host:1;1")


class Work:
    """
    Sets at work.

    Attributes:
        space: of the records.
        faults: of the next calls, by verb; empty: none.
        changes: versions before and after.
        said: lines for people.
        commits: how many were asked for.
        meanwhile: happens once, before the next reading of a record.
    """

    def __init__(self) -> None:
        self.space = MemorySpace()
        self.faults: dict[str, list[Fault]] = {}
        self.changes: list[tuple[int, int]] = []
        self.said: list[str] = []
        self.commits = 0
        self.meanwhile: Callable[[], object] | None = None
        self.store: RecordStore = MemoryStore(self.space, faults=self._fault)
        self.term = self.store.campaign(LEADER, "me")
        self.sets = self.again()

    def again(self) -> BrokerSets:
        """
        Returns what the next leader reads.
        """
        sets = BrokerSets(
            self.store,
            self.term,
            lambda _: Facts(),
            self._changed,
            self.said.append,
            threads=StoreThreads(),
        )
        sets.load()
        return sets

    def _fault(self, verb: str) -> Fault:
        self.commits += verb == "commit"
        if verb == "get" and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        faults = self.faults.get(verb)
        return faults.pop(0) if faults else Fault.NONE

    def _changed(self, before: SetState, after: SetState) -> None:
        self.changes.append((before.version, after.version))


@asynccontextmanager
async def working(work: Work) -> AsyncIterator[BrokerSets]:
    """
    Sets that answer for as long as the block lasts.
    """
    task = asyncio.create_task(work.sets.run())
    try:
        yield work.sets
    finally:
        task.cancel()
        ended = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError | SessionLostError)


def run(main: Callable[[Work], Coroutine[None, None, None]]) -> None:
    """
    Runs a test.
    """
    asyncio.run(main(Work()))


def test_the_next_leader_reads_every_answered_outcome() -> None:
    """The answer follows the commit, never before (RMQ-R222)."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            outcome = await sets.ask(SET, ID)
            assert (2, [(0, 1)]) == (outcome.state.next_id, work.changes)
            again = work.again()
            assert [SET] == again.names()
            assert ["cluster"] == again.clusters("set")
            assert outcome.state == again.known(SET) == again.state(SET)

    run(main)


def test_a_command_without_a_change_is_not_committed() -> None:
    """A query, a refusal, and a repetition (RMQ-R28)."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            await sets.ask(SET, ID)
            before = work.commits
            for command in (GetNextId(), ID, ApplyId(7, "x;1"), Register(9, "h:1")):
                await sets.ask(SET, command)
            assert before == work.commits
            assert sets.known(("cluster", "other")) is None

    run(main)


def test_concurrent_commands_share_a_commit() -> None:
    """Many registrations share a few syncs of the disk."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            before = work.commits
            await asyncio.gather(
                *(sets.ask(("c", f"b{number}"), ID) for number in range(200)),
                *(sets.ask(("c", "b0"), ApplyId(2, "host:2;1")) for _ in range(3)),
            )
            # A round has 64 commands.
            assert 5 > work.commits - before
            assert 3 == sets.state(("c", "b0")).next_id

    run(main)


def test_a_large_round_is_divided_into_several_commits() -> None:
    """A set that is too large for a commit is refused alone."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            big = ApplyId(1, "h:1;" + "x" * 300_000)
            huge = ApplyId(1, "h:1;" + "x" * 950_000)
            refused = asyncio.create_task(sets.ask(("c", "huge"), huge))
            outcomes = await asyncio.gather(
                *(sets.ask(("c", f"b{number}"), big) for number in range(5))
            )
            assert [2] * 5 == [one.state.next_id for one in outcomes]
            with pytest.raises(InvalidError):
                await refused
            assert 5 == len(work.again().names())

    run(main)


def test_names_that_nobody_knows_delay_no_commit_of_others() -> None:
    """A set with a record comes first, and a round is short."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            await sets.ask(SET, ID)
            ended: list[str] = []

            async def ask(names: SetKey, command: Command) -> None:
                await sets.ask(names, command)
                ended.append(names[1])

            strangers = (ask(("cluster", f"stranger-{n}"), ID) for n in range(500))
            await asyncio.gather(*strangers, ask(SET, ApplyId(2, "host:2;1")))
            assert "set" in ended[:130], ended.index("set")

    run(main)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.UNREACHABLE, UnavailableError),
        (Fault.FULL, FullError),
        (Fault.LOST_REQUEST, UnavailableError),
    ],
)
def test_a_failed_command_may_be_repeated(fault: Fault, kind: type[Exception]) -> None:
    """Nothing was changed, and the term continues."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            work.faults["commit"] = [fault]
            with pytest.raises(kind):
                await sets.ask(SET, ID)
            assert ([], None) == (work.changes, sets.known(SET))
            assert 2 == (await sets.ask(SET, ID)).state.next_id

    run(main)


def test_a_commit_whose_answer_is_lost_is_read_back() -> None:
    """It was made, so it is answered as made (RMQ-R230)."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            work.faults["commit"] = [Fault.LOST_ANSWER]
            assert 2 == (await sets.ask(SET, ID)).state.next_id
            assert 3 == (await sets.ask(SET, ApplyId(2, "h:2;1"))).state.next_id

    run(main)


def test_an_outcome_that_stays_unknown_ends_the_term() -> None:
    """The next leader reads the record; no caller gets a guess."""

    async def main(work: Work) -> None:
        work.faults = {"commit": [Fault.LOST_ANSWER], "get": [Fault.UNREACHABLE]}
        asked = await _ends_the_term(work, ID)
        with pytest.raises(UnknownOutcomeError):
            await asked
        assert 2 == work.again().state(SET).next_id

    run(main)


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST])
def test_a_record_that_another_controller_wrote_leaves_the_outcome_open(
    fault: Fault,
) -> None:
    """Our commit may precede it: no caller may assume that it was not done."""

    async def main(work: Work) -> None:
        work.faults["commit"] = [fault]
        other = MemoryStore(work.space)
        key, state = set_key(*SET), SetState(*SET)
        work.meanwhile = lambda: other.commit([Put(key, encode(state))])
        asked = asyncio.create_task(work.sets.ask(SET, ID))
        with pytest.raises(SessionLostError):
            await work.sets.run()
        work.sets.drop()
        with pytest.raises(UnknownOutcomeError):
            await asked

    run(main)


def test_a_former_leader_changes_nothing() -> None:
    """The term is checked in the same write (C2)."""

    async def main(work: Work) -> None:
        work.store.commit([Put(LEADER, b"another")])
        asked = await _ends_the_term(work, ID)
        with pytest.raises(UnknownOutcomeError):
            await asked
        with pytest.raises(NotLeading):
            await work.sets.ask(SET, GetNextId())
        assert [] == work.again().names()

    run(main)


def test_a_record_that_changed_underneath_ends_the_term() -> None:
    """No other program may write it, so the cached state is wrong."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            await sets.ask(SET, ID)
        record = work.store.get(set_key(*SET))
        assert record is not None
        work.store.commit([Put(record.key, record.value)])
        asked = await _ends_the_term(work, ApplyId(2, "h:2;1"))
        with pytest.raises(UnknownOutcomeError):
            await asked

    run(main)


def test_a_damaged_record_stops_its_own_set_alone() -> None:
    """It stays untouched and is reported."""

    async def main(work: Work) -> None:
        damaged = encode(SetState(*SET)).replace(b"cluster", b"closter", 1)
        strange = encode(SetState("c", "elsewhere"))
        _put(work.store, set_key(*SET), damaged)
        _put(work.store, set_key("c", "here"), strange)
        work.sets = work.again()
        async with working(work) as sets:
            for names in (SET, ("c", "here")):
                with pytest.raises(FormatError):
                    await sets.ask(names, GetNextId())
            assert 2 == len(work.said)
            assert 2 == (await sets.ask(("c", "b"), ID)).state.next_id

    run(main)


OTHERS = [("cluster", f"set-{number}") for number in range(5)]


def _flipped(path: Path, whole: bytes, at: int) -> None:
    """
    Flips one byte of a stored row, wherever LMDB has a copy of it.
    """
    data = (path / "data.mdb").read_bytes()
    assert whole in data
    damaged = bytearray(whole)
    damaged[at] ^= 0x11
    (path / "data.mdb").write_bytes(data.replace(whole, bytes(damaged)))


@pytest.mark.parametrize("place", ["key", "proof", "version", "magic", "value", "end"])
def test_one_flipped_byte_in_the_file_stops_one_set_alone(
    tmp_path: Path, place: str
) -> None:
    """LMDB checks nothing; neither opening, campaigning nor loading fails."""
    path = tmp_path / "records"
    key, value = set_key(*SET).encode(), encode(SetState(*SET, next_id=7))
    store = LmdbStore(path)
    for names in (*OTHERS, SET):
        _put(store, set_key(*names), encode(SetState(*names, next_id=7)))
    record = store.get(set_key(*SET))
    assert record is not None
    store.close()
    whole = key + Row(record.version, 0, value).encode(key)
    places = [len(key) - 1, len(key), len(key) + 9, len(key) + 25, len(whole) - 50]
    order = ("key", "proof", "version", "magic", "value", "end")
    _flipped(path, whole, [*places, len(whole) - 1][order.index(place)])

    async def main(work: Work) -> None:
        work.store = LmdbStore(path)
        work.term = work.store.campaign(LEADER, "me")
        work.sets = work.again()
        try:
            async with working(work) as sets:
                for each in OTHERS:
                    assert 7 == sets.state(each).next_id
                outcome = await sets.ask(OTHERS[0], ApplyId(7, "h:1;1"))
                assert 8 == outcome.state.next_id
                with pytest.raises(FormatError, match="restore or rebuild it"):
                    await sets.ask(SET, GetNextId())
                lines = [line for line in work.said if "broker set set of" in line]
                assert 1 == len(lines)
        finally:
            work.store.close()

    run(main)


def test_known_sets_continue_in_a_store_that_takes_no_new_ones(tmp_path: Path) -> None:
    """The rest of the space is theirs; with a larger one new sets are taken again."""

    async def main(work: Work) -> None:
        work.store = LmdbStore(tmp_path / "records", map_bytes=1 << 18)
        work.term = work.store.campaign(LEADER, "me")
        work.sets = work.again()
        known: list[SetKey] = []
        refusal = ""
        try:
            async with working(work) as sets:
                while not refusal:
                    names = ("cluster", f"set-{len(known)}")
                    try:
                        await sets.ask(names, ID)
                        known.append(names)
                    except FullError as error:
                        refusal = str(error)
                assert "larger storeMapBytes" in refusal
                assert len(known) > 50
                space = sets.space
                assert space is not None
                assert space.size == 1 << 18
                assert space.size / 2 < space.used < space.size
                for names in known:
                    # An id that was allocated is confirmed, and its broker registers.
                    await sets.ask(names, ID)
                    for counter in (1, 2):
                        process = start(counter, end=2**62, epoch=999)
                        outcome = await sets.ask(names, Register(1, "h:1", process))
                        assert outcome.state.replicas[0].incarnation is not None
                    with pytest.raises(FullError):
                        await sets.ask(names, ApplyId(2, "h:2;1"))
                assert len(known) == len(work.again().names())
                for names in known:
                    await sets.ask(names, DeleteSet())
        finally:
            work.store.close()
        work.store = LmdbStore(tmp_path / "records", map_bytes=1 << 19)
        work.term = work.store.campaign(LEADER, "me")
        work.sets = work.again()
        try:
            async with working(work) as sets:
                assert 2 == (await sets.ask(("c", "new"), ID)).state.next_id
        finally:
            work.store.close()

    run(main)


def test_commands_of_one_set_see_each_other() -> None:
    """Also those that are committed together."""

    async def main(work: Work) -> None:
        async with working(work) as sets:
            commands: list[Command] = [ID, Register(1, "h:1", start(1)), GetNextId()]
            outcomes = await asyncio.gather(*(sets.ask(SET, one) for one in commands))
            assert [1, 2, 2] == [one.state.version for one in outcomes]

    run(main)


async def _ends_the_term(work: Work, command: Command) -> asyncio.Task[CommandOutcome]:
    """
    Returns what was asked, after the term has ended because of it.
    """
    asked = asyncio.create_task(work.sets.ask(SET, command))
    working = asyncio.create_task(work.sets.run())
    await asyncio.wait([asked, working], return_when=asyncio.FIRST_COMPLETED)
    working.cancel()
    with pytest.raises(SessionLostError):
        await working
    work.sets.drop()
    return asked


def _put(store: RecordStore, key: str, value: bytes) -> None:
    assert store.commit([Put(key, value)])


def test_the_next_sets_are_found_in_order_also_new_ones() -> None:
    """Of two clusters: an answer about thousands of sets has pages."""

    async def main() -> None:
        work = Work()
        async with working(work) as sets:
            for names in (("b", "x"), ("a", "z"), ("a", "y")):
                await sets.ask(names, ID)
            assert [("a", "y"), ("a", "z")] == sets.names_after(("", ""), 2)
            assert [("b", "x")] == sets.names_after(("a", "z"), 2)
            await sets.ask(("a", "yy"), ID)
            assert [("a", "yy"), ("a", "z")] == sets.names_after(("a", "y"), 2)
            assert [] == sets.names_after(("b", "x"), 2)

    asyncio.run(main())
