"""
The sets of brokers of one term: decided, committed, then applied.

A decision is made on the state that was committed last, and holds once its record is
committed, with a check of the record's version and of the term in the same write. What
is asked while a commit runs is decided together, and committed together: many brokers
that register at once share a sync of the disk.

An outcome that is not known is found out by reading back; where that fails too, the
term is given up, and whoever leads next reads what there is.

Source: docs/controller.md, docs/record-store.md; safety C2; R37, R112, R228, R230.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pystore.controller.decide.dispatch import decide
from pystore.controller.model.apply import apply_all
from pystore.controller.model.codec import decode, encode
from pystore.controller.model.commands import Command
from pystore.controller.model.decision import Accepted, CommandResult
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetKey, SetState
from pystore.controller.server.record_keys import SETS, names_of, set_key
from pystore.errors import (
    ClosedError,
    ForkedError,
    FormatError,
    PystoreError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.ops import ABSENT, COMMIT_BYTES_MAX, CheckVersion, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord
from pystore.records.term import Term

__all__ = ["BrokerSets", "CommandOutcome", "NotLeading"]

_RECORD_BYTES = 4096  # of keys and checks of one set in a commit, at most


class NotLeading(UnavailableError):
    """
    This controller does not lead, and did nothing.
    """


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """
    What became of a command.

    Attributes:
        decision: as it is committed.
        state: of the set afterwards.
    """

    decision: CommandResult
    state: SetState


@dataclass(frozen=True, slots=True)
class _Held:
    state: SetState
    version: int


@dataclass(frozen=True, slots=True)
class _Asked:
    names: SetKey
    command: Command
    answer: asyncio.Future[CommandOutcome]


@dataclass(slots=True)
class _Round:
    """
    Commands that are decided together.
    """

    after: dict[SetKey, SetState] = field(default_factory=dict)
    outcomes: list[tuple[_Asked, CommandOutcome]] = field(default_factory=list)


class BrokerSets:
    """
    All sets, for as long as a term lasts. For one event loop, but for `load`.

    Args:
        store: that holds the records.
        term: of this controller.
        facts_of: what is true of a set at this moment.
        changed: is told of every change once it is committed: before, after.
        say: one line for people, about a record that cannot be read: its set is left
            alone.
    """

    def __init__(
        self,
        store: RecordStore,
        term: Term,
        facts_of: Callable[[SetState], Facts],
        changed: Callable[[SetState, SetState], object],
        say: Callable[[str], object],
    ) -> None:
        self._store = store
        self._term = term
        self._facts_of = facts_of
        self._changed = changed
        self._say = say
        self._records: dict[SetKey, StoredRecord] = {}
        self._damaged: dict[SetKey, FormatError] = {}
        self._held: dict[SetKey, _Held] = {}
        self._named: dict[str, list[str]] = {}
        self._asked: list[_Asked] = []
        self._working: list[_Asked] = []
        self._wake = asyncio.Event()
        self._is_dropped = False

    def load(self) -> None:
        """
        Fetches all records. Any thread, before anything is asked.

        What each says is read when it is needed first: a controller that starts with
        thousands of sets serves at once.

        Raises:
            PystoreError: the store cannot be read.
        """
        for record in self._store.scan(SETS):
            cluster, name = names = names_of(record.key)
            self._records[names] = record
            self._named.setdefault(name, []).append(cluster)

    def names(self) -> list[SetKey]:
        """
        Returns which sets have a record.
        """
        return [
            (cluster, name) for name, some in self._named.items() for cluster in some
        ]

    def state(self, names: SetKey) -> SetState:
        """
        Returns the committed state; of a set that is not known, an empty one.

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
        Returns the committed state, if there is one that can be read.
        """
        record = self._records.pop(names, None)
        if record is not None:
            self._read(names, record)
        held = self._held.get(names)
        return None if held is None else held.state

    def _read(self, names: SetKey, record: StoredRecord) -> None:
        try:
            state = decode(record.value, record.key)
            if state.key != names:
                where = f"record {record.key}: it is of another set"
                raise FormatError(f"{where}; restore it from a backup", path=record.key)
        except FormatError as error:
            # One set that nobody can help stops no other.
            self._damaged[names] = error
            self._say(str(error))
            return
        self._held[names] = _Held(state, record.version)

    def clusters(self, name: str) -> list[str]:
        """
        Returns the clusters that have a set of this name.
        """
        return self._named.get(name, [])

    def pending(self, names: SetKey) -> list[Command]:
        """
        Returns what is asked of a set and not committed yet.
        """
        asked = (*self._working, *self._asked)
        return [one.command for one in asked if one.names == names]

    async def ask(self, names: SetKey, command: Command) -> CommandOutcome:
        """
        Decides, and returns once that is committed.

        Raises:
            NotLeading: nothing was done.
            UnknownOutcomeError: it may have been done, and the term is over.
            InvalidError: the names, or the record that it would need, are too long.
            FormatError: the record of the set is damaged.
            StorageError: the store refused; nothing was done.
            UnavailableError: the store cannot be reached; nothing was done.
        """
        self.state(names)
        if self._is_dropped:
            raise NotLeading("this controller does not lead any more")
        answer: asyncio.Future[CommandOutcome] = (
            asyncio.get_running_loop().create_future()
        )
        self._asked.append(_Asked(names, command, answer))
        self._wake.set()
        return await answer

    async def run(self) -> None:
        """
        Decides and commits what is asked, until the term is lost.

        Raises:
            SessionLostError: another controller leads, or may.
            ClosedError: the store was closed.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._working, self._asked = self._asked, []
            await self._carry_out(self._decided(self._working))
            self._working = []

    def drop(self) -> None:
        """
        Gives the term up: whoever waits is told.
        """
        self._is_dropped = True
        for one in self._working:
            _fail(one, UnknownOutcomeError("the term ended while this was committed"))
        for one in self._asked:
            _fail(one, NotLeading("this controller does not lead any more"))

    # -- one round -----------------------------------------------------------

    def _decided(self, asked: Sequence[_Asked]) -> _Round:
        found = _Round()
        for one in asked:
            state = found.after.get(one.names) or self.state(one.names)
            decision = decide(state, one.command, self._facts_of(state))
            if isinstance(decision, Accepted) and decision.events:
                state = apply_all(state, decision.events)
                found.after[one.names] = state
            found.outcomes.append((one, CommandOutcome(decision, state)))
        return found

    async def _carry_out(self, found: _Round) -> None:
        waiting: dict[SetKey, list[tuple[_Asked, CommandOutcome]]] = {}
        for one, outcome in found.outcomes:
            if one.names in found.after:
                waiting.setdefault(one.names, []).append((one, outcome))
            else:
                _settle(one, outcome)
        for values in _divided(
            {names: encode(it) for names, it in found.after.items()}
        ):
            asked = [each for names in values for each in waiting[names]]
            try:
                version = await self._commit(values)
            except (ClosedError, ForkedError, SessionLostError):
                # Nothing of this term holds any more.
                raise
            except PystoreError as error:
                # Nothing was changed; whoever asked may ask again.
                for one, _ in asked:
                    _fail(one, error)
                continue
            for names in values:
                before = self.state(names)
                self._hold(_Held(found.after[names], version))
                self._changed(before, found.after[names])
            for one, outcome in asked:
                _settle(one, outcome)

    async def _commit(self, values: Mapping[SetKey, bytes]) -> int:
        ops: list[Op] = [self._term.check]
        for names, value in values.items():
            key, held = set_key(*names), self._held.get(names)
            ops += [
                CheckVersion(key, ABSENT if held is None else held.version),
                Put(key, value),
            ]
        try:
            version = await asyncio.to_thread(self._store.commit, ops)
        except UnknownOutcomeError:
            # Nothing of it arrives later than a reading.
            names, value = next(iter(values.items()))
            version = await self._read_back(names, value)
        if version is None:
            raise SessionLostError("a commit was refused: another controller leads")
        return version

    async def _read_back(self, names: SetKey, value: bytes) -> int:
        """
        Returns the version of a commit, by one of its records: it is all or nothing.
        """
        key, held = set_key(*names), self._held.get(names)
        try:
            record = await asyncio.to_thread(self._store.get, key)
        except UnavailableError as error:
            # It stays unknown: whoever leads next reads it.
            raise SessionLostError(
                f"the outcome of a commit cannot be found out: {error}"
            ) from error
        if record is not None and record.value == value:
            return record.version
        found = None if record is None else record.version
        if found != (None if held is None else held.version):
            # Somebody wrote since; perhaps on top of what was committed here.
            raise SessionLostError(f"another controller leads: it wrote {key}")
        raise UnavailableError("the record store lost the request; ask again")

    def _hold(self, held: _Held) -> None:
        cluster, name = names = held.state.key
        if names not in self._held:
            self._named.setdefault(name, []).append(cluster)
        self._held[names] = held


def _divided(values: dict[SetKey, bytes]) -> Iterator[dict[SetKey, bytes]]:
    """
    Yields commits of a size that a store takes.
    """
    part: dict[SetKey, bytes] = {}
    size = 0
    for names, value in values.items():
        if part and size + len(value) + _RECORD_BYTES > COMMIT_BYTES_MAX:
            yield part
            part, size = {}, 0
        part[names] = value
        size += len(value) + _RECORD_BYTES
    if part:
        yield part


def _settle(asked: _Asked, outcome: CommandOutcome) -> None:
    if not asked.answer.done():
        asked.answer.set_result(outcome)


def _fail(asked: _Asked, error: PystoreError) -> None:
    if not asked.answer.done():
        asked.answer.set_exception(error)
