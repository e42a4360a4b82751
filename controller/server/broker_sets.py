"""
The sets of brokers of one term: decided, committed, then applied.

A decision is made on the last committed state. It is valid once its record is
committed; the same write checks the version of the record and the term. Commands that
arrive during a commit are decided and committed together, so many brokers that register
at once share one sync of the disk.

If the outcome of a commit is unknown, the record is read back. If that fails too, the
controller gives the term up, and the next leader reads the record.

Source: docs/controller.md, docs/record-store.md; C2; RMQ-R37, RMQ-R112, RMQ-R228,
RMQ-R230.
"""

from __future__ import annotations

import asyncio
import errno
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pystore.controller.decide.dispatch import decide
from pystore.controller.model.apply import apply_all
from pystore.controller.model.codec import decode, encode
from pystore.controller.model.commands import ApplyId, Command
from pystore.controller.model.decision import Accepted, CommandResult
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetKey, SetState
from pystore.controller.server.record_keys import SETS, names_of, set_key
from pystore.controller.server.store_threads import CallKind, StoreThreads
from pystore.errors import (
    ClosedError,
    ForkedError,
    FormatError,
    FullError,
    PystoreError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.ops import ABSENT, COMMIT_BYTES_MAX, CheckVersion, Op, Put
from pystore.records.record_store import (
    BoundedStore,
    RecordStore,
    StoredRecord,
    StoreSpace,
)
from pystore.records.term import Term

__all__ = ["BrokerSets", "CommandOutcome", "NotLeading"]

_RECORD_BYTES = 4096  # of keys and checks of one set in a commit, at most
_USED_MAX = 2  # as a part of the space: a record with one new id grows twofold
_ROUND_MAX = 64  # commands that are decided and committed together


class NotLeading(UnavailableError):
    """
    This controller does not lead, and changed nothing.
    """


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """
    The outcome of a command.

    Attributes:
        decision: as committed.
        state: of the set after it.
        before: of the set when it was decided.
    """

    decision: CommandResult
    state: SetState
    before: SetState


@dataclass(frozen=True, slots=True)
class _Held:
    state: SetState
    version: int


@dataclass(frozen=True, slots=True)
class _Asked:
    names: SetKey
    command: Command
    answer: asyncio.Future[CommandOutcome]
    beside: Callable[[CommandOutcome], list[Op]] | None


@dataclass(slots=True)
class _Round:
    """
    Commands that are decided and committed together.
    """

    after: dict[SetKey, SetState] = field(default_factory=dict)
    outcomes: list[tuple[_Asked, CommandOutcome]] = field(default_factory=list)


class BrokerSets:
    """
    All sets during one term. For one event loop, except `load`.

    Args:
        store: the record store.
        term: of this controller.
        facts_of: returns the facts about a set at this moment.
        changed: called with the old and the new state after each commit.
        say: receives one line for people about each unreadable record, whose set stays
            untouched.
        threads: of the calls to the store.

    Attributes:
        space: of the store, after the last commit; ``None``: it has no largest size.
    """

    def __init__(
        self,
        store: RecordStore,
        term: Term,
        facts_of: Callable[[SetState], Facts],
        changed: Callable[[SetState, SetState], object],
        say: Callable[[str], object],
        *,
        threads: StoreThreads,
    ) -> None:
        self._store = store
        self._threads = threads
        self._term = term
        self._facts_of = facts_of
        self._changed = changed
        self._say = say
        self._records: dict[SetKey, StoredRecord] = {}
        self._damaged: dict[SetKey, FormatError] = {}
        self._held: dict[SetKey, _Held] = {}
        self._named: dict[str, list[str]] = {}
        self._ordered: list[SetKey] | None = None
        self._asked: list[_Asked] = []
        self._working: list[_Asked] = []
        self._wake = asyncio.Event()
        self._is_dropped = False
        self.space: StoreSpace | None = None

    def load(self) -> None:
        """
        Fetches all records. Any thread, before the first command.

        A record is decoded when it is needed first, so a controller that starts with
        thousands of sets serves at once.

        Raises:
            PystoreError: the store cannot be read.
        """
        self._measure()
        for record in self._store.scan(SETS):
            cluster, name = names = _names(record)
            if names not in self._records:
                self._named.setdefault(name, []).append(cluster)
            self._records[names] = record

    def names(self) -> list[SetKey]:
        """
        Returns the keys of all sets that have a record.
        """
        return [
            (cluster, name) for name, some in self._named.items() for cluster in some
        ]

    def names_after(self, after: SetKey, count: int) -> list[SetKey]:
        """
        Returns the keys of the next sets in their order, at most so many.
        """
        if self._ordered is None:
            # New sets are rare: pages of thousands of sets are not sorted one by one.
            self._ordered = sorted(self.names())
        begin = bisect_right(self._ordered, after)
        return self._ordered[begin : begin + count]

    def state(self, names: SetKey) -> SetState:
        """
        Returns the committed state; for a set that does not exist, an empty one.

        Raises:
            InvalidError: the names are too long.
            FormatError: the record of the set is damaged.
        """
        set_key(*names)
        known = self.known(names)
        if names in self._damaged:
            raise self._damaged[names]
        return SetState(*names) if known is None else known

    def known(self, names: SetKey) -> SetState | None:
        """
        Returns the committed state; ``None``: there is none, or it is unreadable.
        """
        record = self._records.pop(names, None)
        if record is not None:
            self._read(names, record)
        held = self._held.get(names)
        return None if held is None else held.state

    def _read(self, names: SetKey, record: StoredRecord) -> None:
        try:
            if record.damage:
                raise _damaged(names, record)
            state = decode(record.value, record.key)
            if state.key != names:
                where = f"record {record.key}: it belongs to another broker set"
                raise FormatError(f"{where}; restore it from a backup", path=record.key)
        except FormatError as error:
            # A damaged set must not stop the other sets.
            self._damaged[names] = error
            self._say(str(error))
            return
        self._held[names] = _Held(state, record.version)

    def clusters(self, name: str) -> list[str]:
        """
        Returns the clusters whose set a request means that names no cluster: those with
        a master, else those with brokers. A wrong cluster name that once got an id, or
        that was cleaned, makes no other set of that name ambiguous.
        """
        found = self._named.get(name, [])
        states = [(cluster, self.known((cluster, name))) for cluster in found]
        led = [cluster for cluster, one in states if one and one.master]
        # The brokers of a damaged record are not known.
        known = [cluster for cluster, one in states if one is None or one.is_known]
        return led or known or found[:1]

    def has_record(self, names: SetKey) -> bool:
        """
        Returns whether a set has a record.
        """
        cluster, name = names
        return cluster in self._named.get(name, ())

    def pending(self, names: SetKey) -> list[Command]:
        """
        Returns the commands for a set that are not committed yet.
        """
        asked = (*self._working, *self._asked)
        return [one.command for one in asked if one.names == names]

    async def ask(
        self,
        names: SetKey,
        command: Command,
        beside: Callable[[CommandOutcome], list[Op]] | None = None,
    ) -> CommandOutcome:
        """
        Decides a command, and returns once the decision is committed.

        Args:
            names: of the set.
            command: to decide.
            beside: returns what else is committed with a change; ``None``: nothing.

        Raises:
            NotLeading: nothing was done.
            UnknownOutcomeError: it may be done, and the term is over.
            InvalidError: the names or the new record are too long.
            FormatError: the record of the set is damaged.
            StorageError: the store refused; nothing was done.
            UnavailableError: the store cannot be reached; nothing was done.
        """
        state = self.state(names)
        if isinstance(command, ApplyId) and state.replica(command.broker_id) is None:
            self._require_space()
        if self._is_dropped:
            raise NotLeading("this controller does not lead any more")
        answer: asyncio.Future[CommandOutcome] = (
            asyncio.get_running_loop().create_future()
        )
        self._asked.append(_Asked(names, command, answer, beside))
        self._wake.set()
        return await answer

    @property
    def has_space(self) -> bool:
        """
        Whether the records may grow: elections and changes of the known sets need the
        rest.
        """
        space = self.space
        return space is None or space.used * _USED_MAX <= space.size

    def _require_space(self) -> None:
        """
        Refuses what makes the records grow for good.
        """
        space = self.space
        if space is not None and not self.has_space:
            raise FullError(
                f"the record store has {space.used} of {space.size} bytes in use: new "
                "sets and new ids are refused until the controller starts with a "
                "larger storeMapBytes",
                errno=errno.ENOSPC,
            )

    def _measure(self) -> None:
        if not isinstance(self._store, BoundedStore):
            return
        try:
            self.space = self._store.measure()
        except PystoreError:
            # The commit before it is done; the next call reports what is wrong.
            return

    def _written(self, ops: Sequence[Op]) -> int | None:
        version = self._store.commit(ops)
        self._measure()
        return version

    async def run(self) -> None:
        """
        Decides and commits commands until the term is lost.

        Raises:
            SessionLostError: another controller leads, or may lead.
            ClosedError: the store was closed.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._working = self._next_round()
            await self._carry_out(self._decided(self._working))
            self._working = []

    def _next_round(self) -> list[_Asked]:
        """
        Returns the commands of the next round. Those for sets with a record come first,
        so that names which nobody knows delay no commit of others; a round is short, so
        that they wait for few of them. Commands for one set keep their order.
        """
        self._asked.sort(key=lambda one: not self.has_record(one.names))
        found, self._asked = self._asked[:_ROUND_MAX], self._asked[_ROUND_MAX:]
        if self._asked:
            self._wake.set()
        return found

    def drop(self) -> None:
        """
        Gives the term up: all waiting callers get an error.
        """
        self._is_dropped = True
        for one in self._working:
            _fail(
                one,
                UnknownOutcomeError(
                    "the term of this controller ended during the commit"
                ),
            )
        for one in self._asked:
            _fail(one, NotLeading("this controller does not lead any more"))

    # -- one round -----------------------------------------------------------

    def _decided(self, asked: Sequence[_Asked]) -> _Round:
        found = _Round()
        for one in asked:
            state = before = found.after.get(one.names) or self.state(one.names)
            decision = decide(state, one.command, self._facts_of(state))
            if isinstance(decision, Accepted) and decision.events:
                state = apply_all(state, decision.events)
                found.after[one.names] = state
            found.outcomes.append((one, CommandOutcome(decision, state, before)))
        return found

    async def _carry_out(self, found: _Round) -> None:
        waiting: dict[SetKey, list[tuple[_Asked, CommandOutcome]]] = {}
        for one, outcome in found.outcomes:
            if one.names in found.after:
                waiting.setdefault(one.names, []).append((one, outcome))
            else:
                _settle(one, outcome)
        beside = {names: _beside(some) for names, some in waiting.items()}
        for values in _divided(
            {names: encode(it) for names, it in found.after.items()}, beside
        ):
            asked = [each for names in values for each in waiting[names]]
            try:
                version = await self._commit(values, beside)
            except (ClosedError, ForkedError, SessionLostError):
                # The whole term is over.
                raise
            except PystoreError as error:
                # Nothing was changed; the caller may try again.
                for one, _ in asked:
                    _fail(one, error)
                continue
            for names in values:
                before = self.state(names)
                self._hold(_Held(found.after[names], version))
                self._changed(before, found.after[names])
            for one, outcome in asked:
                _settle(one, outcome)

    async def _commit(
        self, values: Mapping[SetKey, bytes], beside: Mapping[SetKey, list[Op]]
    ) -> int:
        ops: list[Op] = [self._term.check]
        for names, value in values.items():
            key, held = set_key(*names), self._held.get(names)
            ops += [
                CheckVersion(key, ABSENT if held is None else held.version),
                Put(key, value),
                *beside[names],
            ]
        try:
            version = await self._threads.run(CallKind.COMMIT, self._written, ops)
        except UnknownOutcomeError:
            # A read comes after every write of this session.
            names, value = next(iter(values.items()))
            version = await self._read_back(names, value)
        if version is None:
            raise SessionLostError(
                "the record store refused a commit: another controller leads"
            )
        return version

    async def _read_back(self, names: SetKey, value: bytes) -> int:
        """
        Returns the version of a commit, read from one of its records: a commit writes
        all of them or none.
        """
        key, held = set_key(*names), self._held.get(names)
        try:
            record = await self._threads.run(CallKind.COMMIT, self._store.get, key)
        except UnavailableError as error:
            # The outcome stays unknown: the next leader reads the record.
            raise SessionLostError(
                f"the outcome of a commit stays unknown: {error}"
            ) from error
        if record is not None and record.value == value:
            return record.version
        found = None if record is None else record.version
        if found != (None if held is None else held.version):
            # Another controller wrote it since, perhaps after our commit.
            raise SessionLostError(f"another controller leads: it wrote {key}")
        raise UnavailableError("the record store lost the commit; try again")

    def _hold(self, held: _Held) -> None:
        cluster, name = names = held.state.key
        if names not in self._held:
            self._named.setdefault(name, []).append(cluster)
            self._ordered = None
        self._held[names] = held


def _names(record: StoredRecord) -> SetKey:
    """
    Returns the set of a record. Of a damaged one the key may be wrong: then its set
    would have no record, and begin with the first id again.
    """
    if record.damage:
        try:
            return decode(record.value, record.key).key
        except FormatError:
            # Then the key is what is left of it.
            pass
    return names_of(record.key)


def _damaged(names: SetKey, record: StoredRecord) -> FormatError:
    cluster, name = names
    return FormatError(
        f"broker set {name} of cluster {cluster}: the record is damaged: restore or "
        f"rebuild it ({record.damage.partition(': restore')[0]})",
        path=record.key,
    )


def _beside(some: Sequence[tuple[_Asked, CommandOutcome]]) -> list[Op]:
    """
    Returns what is committed beside the record of a set.
    """
    found: list[Op] = []
    for one, outcome in some:
        decision = outcome.decision
        if one.beside and isinstance(decision, Accepted) and decision.events:
            found += one.beside(outcome)
    return found


def _divided(
    values: dict[SetKey, bytes], beside: Mapping[SetKey, list[Op]]
) -> Iterator[dict[SetKey, bytes]]:
    """
    Yields the values in groups that fit one commit each.
    """
    part: dict[SetKey, bytes] = {}
    size = 0
    for names, value in values.items():
        puts = [one.value for one in beside[names] if isinstance(one, Put)]
        more = sum(_RECORD_BYTES + len(one) for one in (value, *puts))
        if part and size + more > COMMIT_BYTES_MAX:
            yield part
            part, size = {}, 0
        part[names] = value
        size += more
    if part:
        yield part


def _settle(asked: _Asked, outcome: CommandOutcome) -> None:
    if not asked.answer.done():
        asked.answer.set_result(outcome)


def _fail(asked: _Asked, error: PystoreError) -> None:
    if not asked.answer.done():
        asked.answer.set_exception(error)
