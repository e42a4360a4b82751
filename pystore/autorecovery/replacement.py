"""
Replaces replicas: carries out the steps of all replacements under the Auditor's term.

A request to a host or to the controllers is announced in the record first, in a commit
with the check of the term, and what it was decided on is read again between the two. So
an Auditor whose term is over sends nothing, and a request that has no effect is
repeated after a rest that grows.

Source: D2; AR-R11, AR-R19, AR-R22; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pystore.autorecovery.host_peers import (
    HostPeers,
    NewReplica,
    RecoveryHost,
    SetOperators,
)
from pystore.autorecovery.replacement_action import (
    AddReplica,
    ChangeReplacement,
    CleanBroker,
    EndReplacement,
    HandMastership,
    MakeLearner,
    RemoveReplica,
    ReplacementStep,
    WaitFor,
)
from pystore.autorecovery.replacement_record import (
    ASKED,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
    encode_replacement,
)
from pystore.autorecovery.replacement_requests import (
    list_drains,
    marked_segments,
    read_replacements,
)
from pystore.autorecovery.replacement_state import ReplacementFacts, lacks_replicas
from pystore.autorecovery.replacement_steps import next_step
from pystore.autorecovery.replacement_target import HostFacts, owner_of
from pystore.autorecovery.replica_peers import ClusterView, Controllers
from pystore.autorecovery.set_copies import good_copies
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.errors import (
    FencedError,
    FormatError,
    PystoreError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.ops import ABSENT, CheckVersion, Delete, Put
from pystore.records.record_store import RecordStore

__all__ = ["Replacements"]

_SAY_AGAIN_MS = 30_000
_MARKS_MS = 10_000  # so old may they be for a wait, not for a request
_CLEAN_TRIES = 3
_MOVING_MS = 5_000
_RANKS = {ReplacementReason.DRAIN: 1, ReplacementReason.MISPLACED: 2}

_Seen = tuple[Replacement, int]
_Decide = Callable[[SetDescription | None, int], ReplacementStep]


class Replacements:
    """
    The replacements of all sets. One thread.

    Args:
        store: of the records; the Auditor's session.
        controllers: tell one set again before a request.
        hosts: carry the replicas.
        operators: change members.
        clock_ms: returns Unix time.
        say: receives one line for people about each end and each request.
    """

    def __init__(
        self,
        store: RecordStore,
        controllers: Controllers,
        hosts: HostPeers,
        operators: SetOperators,
        *,
        clock_ms: Callable[[], int],
        say: Callable[[str], object] = bool,
    ) -> None:
        self._store = store
        self._controllers = controllers
        self._hosts = hosts
        self._operators = operators
        self._clock_ms = clock_ms
        self._say = say
        self._asked = -1
        self._known: dict[ReplacementKey, _Seen] = {}
        self._drains: dict[str, bool] = {}
        self._said_ms: dict[ReplacementKey, int] = {}
        self._marked: dict[SetKey, tuple[int, Mapping[str, frozenset[int]]]] = {}

    @property
    def is_moving(self) -> bool:
        """
        Whether a replacement has come to its phase so shortly ago that its next step is
        probably possible soon: hosts, replicas and controllers answer within seconds.
        """
        now_ms = self._clock_ms()
        return any(
            0 <= now_ms - one.phase_ms < _MOVING_MS for one, _ in self._known.values()
        )

    def handles(self, cluster: str, set_name: str, broker_id: int) -> bool:
        """
        Returns whether a broker is being replaced, or is the new one of a replacement
        that is not done: its loss is no loss of its own. As of the last step.
        """
        return self._of(ReplacementKey(cluster, set_name, broker_id)) is not None

    def text_of(self, broker: ReplacementKey) -> str:
        """
        Returns how far the replacement is that `handles` a broker, one line; empty:
        there is none.
        """
        one = self._of(broker)
        if one is None:
            return ""
        where = f" on {one.target}" if one.target else ""
        problem = f": {one.problem}" if one.problem else ""
        return f"{one.phase.value}{where}{problem}"

    def _of(self, broker: ReplacementKey) -> Replacement | None:
        for key, (one, _) in self._known.items():
            if key.names != broker.names:
                continue
            left = {it.broker_id for it in one.left}
            if broker.broker_id in {key.broker_id, one.new_id, *left}:
                return one
        return None

    def step(
        self,
        view: ClusterView,
        settings: RecoverySettings,
        term: CheckVersion,
        lost: Sequence[ReplacementKey] = (),
    ) -> None:
        """
        Takes one step of each replacement: at most one request each.

        Args:
            view: all sets, at this moment. One with fewer replicas than an operator
                wants gets another one.
            settings: of AutoRecovery.
            term: the check of the Auditor's term.
            lost: the brokers that are to be replaced as lost, if none of the
                replacements handles them.

        Raises:
            FencedError: the term has ended.
            UnavailableError: the record store or the hosts do not answer; the next step
                goes on where this one stopped.
        """
        self._read()
        for key in lost:
            if self._asked != -1 and not self.handles(*key.names, key.broker_id):
                self.ask(key, ReplacementReason.LOST, "the Auditor", term)
            self._lose(key, term)
        self._complete(view, term)
        if not self._known and not self._drains:
            return
        hosts = self._hosts.all_hosts()
        self._drain(view, hosts, term)
        for key in sorted(self._known, key=lambda one: self._urgency(one, view)):
            self._one(key, view, hosts, settings, term)

    # -- records ------------------------------------------------------------------

    def _read(self) -> None:
        """
        Reads all records, if another process wrote one, or an answer was lost. It costs
        one request otherwise (AR-R19).
        """
        found = self._store.get(ASKED)
        version = ABSENT if found is None else found.version
        if version == self._asked:
            return
        damaged: list[str] = []
        read = read_replacements(self._store, damaged)
        self._known = {key: (one, number) for key, one, number in read}
        drains = list_drains(self._store)
        self._drains = {host: one.with_living for host, one in drains.items()}
        self._asked = version
        for line in damaged:
            self._say(line)

    def _complete(self, view: ClusterView, term: CheckVersion) -> None:
        """
        Asks for another replica of each set that has fewer than an operator wants.
        """
        known = {key: one for key, (one, _) in self._known.items()}
        for names, described in view.sets.items():
            key = ReplacementKey(*names, 0)
            if self._asked == -1 or not described.copies or key in known:
                continue
            if lacks_replicas(described, known, {}):
                self.ask(key, ReplacementReason.MISSING, "the Auditor", term)

    def _drain(
        self,
        view: ClusterView,
        hosts: Mapping[str, RecoveryHost],
        term: CheckVersion,
    ) -> None:
        """
        Asks for the replacement of each replica of a host that is emptied.
        """
        for host, with_living in self._drains.items():
            described = hosts.get(host)
            for it in () if described is None else described.replicas:
                one = view.sets.get((it.cluster, it.set_name))
                known = {b.broker_id: b for b in one.brokers} if one else {}
                broker = known.get(it.broker_id or 0)
                key = ReplacementKey(it.cluster, it.set_name, it.broker_id or 0)
                if broker is None or key in self._known:
                    continue
                known_ones = {k: record for k, (record, _) in self._known.items()}
                if owner_of(key, known_ones, hosts) is not None:
                    # Its replacement takes care of it.
                    continue
                if broker.is_alive and with_living:
                    self.ask(key, ReplacementReason.DRAIN, f"drain of {host}", term)
                elif not broker.is_alive and view.may_replace:
                    self.ask(key, ReplacementReason.LOST, f"drain of {host}", term)

    def _lose(self, key: ReplacementKey, term: CheckVersion) -> None:
        """
        A replica that was to be moved is lost: any host is good for it now.
        """
        one, version = self._known.get(key, (None, 0))
        if self._asked != -1 and one and one.reason is ReplacementReason.MISPLACED:
            self._put(key, replace(one, reason=ReplacementReason.LOST), version, term)

    def count(self, reason: ReplacementReason) -> int:
        """
        Returns how many replacements for a reason have not ended, as of the last step;
        one that has only to be cleared up has.
        """
        ended = ReplacementPhase.CLEARING
        known = (one for one, _ in self._known.values() if one.phase is not ended)
        return sum(one.reason is reason for one in known)

    def facts(self, view: ClusterView, settings: RecoverySettings) -> HostFacts:
        """
        Returns what the choice of a host depends on, as of the last step.

        Raises:
            UnavailableError: the hosts do not answer.
        """
        return self._around(view, self._hosts.all_hosts(), settings)

    def _around(
        self,
        view: ClusterView,
        hosts: Mapping[str, RecoveryHost],
        settings: RecoverySettings,
    ) -> HostFacts:
        known = {key: one for key, (one, _) in self._known.items()}
        return HostFacts(view.sets, hosts, known, frozenset(self._drains), settings)

    def ask(
        self,
        key: ReplacementKey,
        reason: ReplacementReason,
        by: str,
        term: CheckVersion,
    ) -> None:
        """
        Asks for a replacement, if there is none of that replica.

        Raises:
            FencedError: the term has ended.
        """
        now_ms = self._clock_ms()
        self._put(key, Replacement(reason, now_ms, by, phase_ms=now_ms), ABSENT, term)

    def _put(
        self,
        key: ReplacementKey,
        one: Replacement | None,
        version: int,
        term: CheckVersion,
    ) -> bool:
        """
        Writes or deletes a record; returns whether it was done. If not, all records are
        read by the next step.
        """
        name = key.record
        write = Delete(name) if one is None else Put(name, encode_replacement(one))
        try:
            made = self._store.commit([term, CheckVersion(name, version), write])
        except UnknownOutcomeError:
            # The record shows it, at the next step.
            self._asked = -1
            return False
        if made is None:
            self._asked = -1
            held = self._store.get(term.key)
            if held is None or held.version != term.version:
                raise FencedError(
                    f"the term of {term.key} has ended: another Auditor replaces "
                    "replicas now"
                )
            return False
        if one is None:
            del self._known[key]
        else:
            self._known[key] = (one, made)
        return True

    # -- one replacement ----------------------------------------------------------

    def _one(
        self,
        key: ReplacementKey,
        view: ClusterView,
        hosts: Mapping[str, RecoveryHost],
        settings: RecoverySettings,
        term: CheckVersion,
    ) -> None:
        if self._asked == -1:
            # Records have to be read before anything else is decided.
            return
        one, version = self._known[key]
        names = key.names
        around = self._around(view, hosts, settings)

        def decide(described: SetDescription | None, age_ms: int) -> ReplacementStep:
            facts = ReplacementFacts(
                around,
                described,
                view.may_replace,
                lambda but: self._damaged(names, but, age_ms),
                self._clock_ms(),
            )
            return next_step(key, one, facts)

        empty = SetDescription(*names)
        seen = None if names in view.damaged else view.sets.get(names, empty)
        step = decide(seen, _MARKS_MS)
        match step:
            case ChangeReplacement(record):
                self._put(key, record, version, term)
            case EndReplacement(text):
                if self._put(key, None, version, term):
                    self._say(f"the replacement of {_named(key)} {text}")
            case WaitFor():
                self._wait(key, step, term)
            case _ if self._clock_ms() >= one.not_before_ms:
                self._request(key, decide, settings, term)

    def _damaged(
        self, names: SetKey, but: frozenset[int], age_ms: int
    ) -> Sequence[str]:
        """
        Returns segments whose repair may need the copies of these brokers.
        """
        now_ms = self._clock_ms()
        at_ms, marked = self._marked.get(names, (-age_ms, {}))
        if now_ms - at_ms >= age_ms:
            marked = marked_segments(self._store, *names)
            self._marked[names] = now_ms, marked
        return [segment for segment, missing in marked.items() if missing - but]

    def _wait(self, key: ReplacementKey, step: WaitFor, term: CheckVersion) -> None:
        """
        Keeps in the record what a replacement waits for, if that is something else.
        """
        one, version = self._known[key]
        is_same = (one.problem, one.waits_for) == (step.problem, step.reason)
        now_ms = self._clock_ms()
        is_early = now_ms < self._said_ms.get(key, 0) + _SAY_AGAIN_MS
        if is_same or (one.waits_for is step.reason and is_early and one.problem):
            return
        self._said_ms[key] = now_ms
        told = replace(one, problem=step.problem, waits_for=step.reason)
        self._put(key, told, version, term)

    def _request(
        self,
        key: ReplacementKey,
        decide: _Decide,
        settings: RecoverySettings,
        term: CheckVersion,
    ) -> None:
        """
        Announces a request, and sends it if it is still the next step.
        """
        one, version = self._known[key]
        tries = one.tries + 1
        until_ms = self._clock_ms() + settings.back_off_ms(tries)
        sent = replace(one, tries=tries, not_before_ms=until_ms)
        if not self._put(key, sent, version, term):
            return
        try:
            problem = self._send(key, decide)
        except FormatError as error:
            # Of the set's record, which became unreadable.
            problem = str(error)
        except UnavailableError as error:
            # It may be done or not: the next step looks.
            problem = str(error)
        except PystoreError as error:
            # It was refused: after a rest again, or elsewhere.
            problem = f"refused: {error}"
        one, version = self._known[key]
        if problem and problem != one.problem:
            told = replace(one, problem=problem, waits_for=None)
            self._put(key, told, version, term)

    def _send(
        self,
        key: ReplacementKey,
        decide: _Decide,
    ) -> str:
        """
        Sends the request that is right by the newest description of the set; returns
        why none was sent.
        """
        names = key.names
        for _ in range(_CLEAN_TRIES):
            fresh = self._controllers.one_set(*names) or SetDescription(*names)
            step = decide(fresh, 0)
            match step:
                case ChangeReplacement() | EndReplacement():
                    return ""
                case WaitFor(problem):
                    return problem
            self._say(f"replacement of {_named(key)}: {_request_text(step)}")
            if self._is_sent(key, step):
                return ""
        return "the set changes too often: its version was another one each time"

    def _is_sent(self, key: ReplacementKey, step: ReplacementStep) -> bool:
        """
        Returns whether the peer did it; if not, the set has another version.
        """
        names = key.names
        match step:
            case AddReplica(host):
                self._hosts.add(host, NewReplica(*names))
            case RemoveReplica(host, deletes_store):
                self._hosts.remove(host, *names, deletes_store=deletes_store)
            case CleanBroker(broker_id, version):
                return self._operators.clean(*names, broker_id, version)
            case MakeLearner(broker_id, version):
                return self._operators.set_learner(*names, broker_id, version)
            case HandMastership(master, broker_id):
                self._operators.hand_over(master, broker_id)
        return True

    def _urgency(
        self, key: ReplacementKey, view: ClusterView
    ) -> tuple[int, int, int, ReplacementKey]:
        """
        Sorts replacements: those of sets with the fewest good copies first, then those
        of drains, then moves to other racks.
        """
        one, _ = self._known[key]
        described = view.sets.get(key.names)
        copies = 0 if described is None else good_copies(described)
        return _RANKS.get(one.reason, 0), copies, one.since_ms, key


def _named(key: ReplacementKey) -> str:
    if not key.broker_id:
        return f"a missing broker of {key.set_name} in {key.cluster}"
    return f"broker {key.broker_id} of {key.set_name} in {key.cluster}"


def _request_text(step: ReplacementStep) -> str:
    match step:
        case AddReplica(host):
            return f"host {host} is to add a replica"
        case RemoveReplica(host, deletes_store):
            what = (
                "remove its replica and the store"
                if deletes_store
                else ("remove its replica, and keep the store")
            )
            return f"host {host} is to {what}"
        case CleanBroker(broker_id):
            return f"broker {broker_id} is cleaned"
        case MakeLearner(broker_id):
            return f"broker {broker_id} becomes a learner"
        case HandMastership(_, broker_id):
            return f"broker {broker_id} is to become the master"
    return ""
