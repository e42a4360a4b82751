"""
The record store in ZooKeeper, through kazoo: for several hosts.

A commit is one transaction. Its first operation checks the node of this store's own
session: kazoo opens a new session by itself after one has expired, but the reads and
holds of the old session are not valid in the new one. A version is the number of the
transaction that wrote the record. A ``sync`` precedes each read in the same round trip,
so that a lagging server answers like the others.

Needs the extra ``zookeeper``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KazooState

from pystore.clocks import boottime_ns
from pystore.errors import (
    ClosedError,
    ForkedError,
    SessionLostError,
    StorageError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.leadership import Leadership, Made
from pystore.records.ops import KeyOps, Op, check_bound, check_key
from pystore.records.record_store import StoredRecord
from pystore.records.spaces import COMMON, NEVER, may_hold, space_of
from pystore.records.term import Term
from pystore.records.znodes import Znodes
from pystore.records.zookeeper_access import (
    ZookeeperTls,
    ZookeeperUser,
    give_nodes,
    is_refusal,
)
from pystore.records.zookeeper_nodes import make_common, make_space
from pystore.records.zookeeper_transaction import NodesRead, is_guarded, plan

__all__ = ["ZookeeperStore"]

Untyped = Any  # kazoo has no types

_LOST = (ConnectionLoss, ConnectionClosedError)
_CHECK_FAILURES = (
    BadVersionError,
    NoNodeError,
    NodeExistsError,
    RolledBackError,
    RuntimeInconsistency,
)
_READS_MAX = 500  # in one batch
# How long a campaign and a wait rely on a watch, which may be lost. A look costs two
# requests, and idle processes wait all day.
_POLL_S = 1.0
_WAIT_POLL_S = 5.0


class ZookeeperStore:
    """
    One session with an ensemble; see `pystore.records.record_store.RecordStore`.

    Args:
        hosts: ``host:port``, with commas between them; behind them may stand the path
            of a node, which is made if it is missing.
        root: the path of the node above all others, below that of *hosts*.
        session_timeout_s: requested; the servers grant the actual one.
        timeout_s: how long a call waits for its answer.
        clock_ns: the clock of send times.
        user: with whose rights; ``None``: with those that all have.
        tls: of the connections; ``None``: plain bytes.

    Attributes:
        granted_timeout_s: the session time-out that the servers granted.

    Raises:
        UnavailableError: no server answers in time, or the user lacks rights.
    """

    reads_locally = False

    def __init__(
        self,
        hosts: str,
        *,
        root: str = "/pystore",
        session_timeout_s: float = 10.0,
        timeout_s: float = 10.0,
        clock_ns: Callable[[], int] = boottime_ns,
        user: ZookeeperUser | None = None,
        tls: ZookeeperTls | None = None,
    ) -> None:
        servers, slash, above = hosts.partition("/")
        self.hosts = hosts
        self.granted_timeout_s = 0.0
        self._user = user
        self._znodes = Znodes(f"{slash}{above}/{root.strip('/')}")
        self._timeout_s = timeout_s
        self._clock_ns = clock_ns
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._events = 0
        self._is_closed = False
        self._is_lost = False
        self._leadership = Leadership(
            self._commit,
            self.get,
            self._await_absence,
            lambda: int(self.granted_timeout_s * 1e9),
        )
        options = {} if tls is None else tls.options
        if user is not None:
            options |= user.options
        self._client: Untyped = KazooClient(
            servers, timeout=session_timeout_s, **options
        )
        self._note_granted_timeout()
        try:
            self._client.start(timeout_s)
            self._session: int = self._client.client_id[0]
            self._client.add_listener(self._wake_waiting)
            self._me = f"{self._znodes.sessions}/{uuid.uuid4().hex}"
            self._prepare()
        except (KazooException, KazooTimeoutError) as error:
            # Any error: the store cannot be opened. kazoo's errors stay in this file.
            self.close()
            raise self._not_opened(error) from error

    def _note_granted_timeout(self) -> None:
        """
        Intercepts the granted session time-out, which kazoo does not publish.
        """
        connection = self._client._connection
        invoke = connection._invoke

        def noted(timeout: float, request: object, xid: int | None = None) -> Untyped:
            answer = invoke(timeout, request, xid)
            if isinstance(request, Connect):
                self.granted_timeout_s = answer[0].time_out / 1000
                self._leadership.shorten(int(self.granted_timeout_s * 1e9))
            return answer

        connection._invoke = noted

    def _prepare(self) -> None:
        """
        Makes the common nodes, or takes them over, and makes the node of this session.
        """
        client, znodes = self._client, self._znodes
        is_new = make_common(client, znodes, self._timeout_s)
        if not is_new and self._user is not None:
            give_nodes(client, znodes, self._user.acl, self._timeout_s)
        made = client.create_async(self._me, b"", ephemeral=True)
        made.get(timeout=self._timeout_s)

    def get(self, key: str) -> StoredRecord | None:
        """
        See `RecordStore.get`.
        """
        check_key(key)
        node = self._znodes.node(key)
        (found,) = self._ask(lambda: self._client.get_async(node))
        return None if found is None else StoredRecord(key, found[0], found[1].mzxid)

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        See `RecordStore.scan`. Lists the names of all records of each space that may
        have the prefix.
        """
        check_bound(prefix)
        past = check_bound(after)
        client, znodes = self._client, self._znodes
        buckets = [
            b for one in self._spaces(prefix) for b in znodes.of_space(one).buckets
        ]
        listed = self._ask(*(lambda b=b: client.get_children_async(b) for b in buckets))
        keys = sorted(
            (
                key
                for names in listed
                for key in map(znodes.key, names or ())
                if key.startswith(prefix) and key.encode() > past
            ),
            key=str.encode,
        )
        records: list[StoredRecord] = []
        while keys and limit != len(records):
            count = _READS_MAX
            if limit is not None:
                count = min(count, limit - len(records))
            page, keys = keys[:count], keys[count:]
            found = self._ask(
                *(lambda k=k: client.get_async(znodes.node(k)) for k in page)
            )
            records += [
                StoredRecord(key, one[0], one[1].mzxid)
                for key, one in zip(page, found, strict=True)
                if one is not None
            ]
        return records

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        See `RecordStore.commit`.
        """
        return self._leadership.commit(ops)

    def _spaces(self, prefix: str) -> list[str]:
        """
        Returns the spaces that may have keys with a prefix.
        """
        if "/" in prefix:
            return [space_of(prefix)]
        client, znodes = self._client, self._znodes
        (names,) = self._ask(lambda: client.get_children_async(znodes.spaces))
        spaces = [COMMON, *map(znodes.key, names or ())]
        return [space for space in spaces if may_hold(space, prefix)]

    def wait(self, token: int, timeout_s: float, space: str = "") -> int:
        """
        See `RecordStore.wait`.
        """
        end_s = time.monotonic() + timeout_s
        node = self._znodes.of_space(space_of(f"{space}/")).generation
        while True:
            seen = self._events
            (stat,) = self._ask(
                lambda: self._client.exists_async(node, self._wake_waiting)
            )
            # A space that was only made has no commit yet.
            last = NEVER
            if stat is not None and stat.version > 0:
                last = int(stat.mzxid)
            left_s = end_s - time.monotonic()
            if last != token or left_s <= 0:
                return last
            self._sleep(seen, min(left_s, _WAIT_POLL_S))

    def campaign(self, path: str, name: str) -> Term:
        """
        See `RecordStore.campaign`.
        """
        return self._leadership.campaign(path, name)

    def close(self) -> None:
        """
        See `RecordStore.close`.
        """
        if self._process != os.getpid():
            return
        self._leadership.end()
        with self._changed:
            was_closed, self._is_closed = self._is_closed, True
            self._changed.notify_all()
        if not was_closed:
            with contextlib.suppress(KazooException, KazooTimeoutError):
                # Unreachable servers end the session by its time-out.
                self._client.stop()
                self._client.close()

    def _wake_waiting(self, event: object) -> None:
        """
        Wakes all waiting calls: a watch fired, or kazoo's state changed.
        """
        with self._changed:
            self._events += 1
            self._is_lost = self._is_lost or event == KazooState.LOST
            self._changed.notify_all()

    def _sleep(self, seen: int, at_most_s: float) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._events != seen or self._is_closed, at_most_s
            )

    def _usable(self) -> None:
        if self._process != os.getpid():
            raise ForkedError(
                f"{self.hosts}: the session belongs to the parent process: open "
                "another one"
            )
        if self._is_closed:
            raise ClosedError(f"the record store at {self.hosts} is closed")
        if self._is_lost:
            raise self._session_lost()

    def _session_lost(self) -> SessionLostError:
        self._is_lost = True
        return SessionLostError(
            f"{self.hosts}: the session and its holds have expired: close the "
            "record store and open it again"
        )

    def _not_opened(self, error: Exception) -> UnavailableError:
        if not is_refusal(error):
            return self._unreachable()
        who = "all" if self._user is None else f"user {self._user.name}"
        return UnavailableError(
            f"{self.hosts}: ZooKeeper refuses ({type(error).__name__}): the node "
            f"{self._znodes.root} or one above it is not for {who}: see "
            "zookeeperCredentials"
        )

    def _unreachable(self) -> UnavailableError:
        return UnavailableError(
            f"{self.hosts}: ZooKeeper does not answer: check the address and that "
            "a majority of its servers run, then try again"
        )

    def _ask(self, *requests: Callable[[], Any]) -> list[Any]:
        """
        Sends read requests and returns their answers; ``None``: no such node.
        """
        end_s = time.monotonic() + self._timeout_s
        while True:
            self._usable()
            seen = self._events
            try:
                answers = [self._client.sync_async(self._znodes.root)]
                answers += [request() for request in requests]
                return [self._answer(one, end_s) for one in answers][1:]
            except SessionExpiredError as error:
                # An expired session never comes back; a closed one raises it as well.
                self._usable()
                raise self._session_lost() from error
            except KazooTimeoutError as error:
                # Reads change nothing.
                self._usable()
                raise self._unreachable() from error
            except _LOST as error:
                # kazoo connects again by itself; until then requests fail.
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise self._unreachable() from error
                self._sleep(seen, min(left_s, 0.05))
            except KazooException as error:
                # kazoo's errors do not leave this file.
                raise self._refused("a read", error) from error

    @staticmethod
    def _answer(result: Untyped, end_s: float) -> Untyped:
        try:
            return result.get(timeout=max(0.001, end_s - time.monotonic()))
        except NoNodeError:
            # A missing node is an answer, too.
            return None

    def _commit(self, keys: Mapping[str, KeyOps]) -> Made | None:
        while True:
            seen, generation = self._see(keys)
            transaction = self._client.transaction()
            transaction.check(self._me, -1)
            changes = plan(keys, seen, self._session, self._znodes, transaction)
            if changes is None:
                return None
            sent_ns = self._clock_ns()
            results = self._send(transaction)
            if isinstance(results[0], NoNodeError):
                raise self._session_lost()
            if not any(isinstance(one, Exception) for one in results):
                return Made(results[-1].mzxid if changes else generation, sent_ns)
            self._refuse_others(results)
            # Another store was faster: read again.

    def _refuse_others(self, results: list[Any]) -> None:
        """
        Raises errors that another try would not solve.
        """
        for one in results:
            if isinstance(one, Exception) and not isinstance(one, _CHECK_FAILURES):
                raise self._refused("a commit", one) from one

    def _refused(self, what: str, error: Exception) -> StorageError:
        return StorageError(
            f"{self.hosts}: ZooKeeper refuses {what} ({type(error).__name__}), nothing "
            f"was changed: check the access lists below {self._znodes.root}"
        )

    def _see(self, keys: Mapping[str, KeyOps]) -> tuple[NodesRead, int]:
        """
        Reads what a commit relies on, and the number of the last commit to its spaces.
        """
        client, znodes = self._client, self._znodes
        spaces = sorted({space_of(key) for key in keys}) or [COMMON]
        guards = sorted({znodes.guard(k) for k, ops in keys.items() if is_guarded(ops)})
        while True:
            paths = [znodes.of_space(space).generation for space in spaces]
            paths += [*guards, *(znodes.node(key) for key in keys)]
            stats = self._ask(*(lambda p=p: client.exists_async(p) for p in paths))
            generations, others = stats[: len(spaces)], stats[len(spaces) :]
            if None not in generations:
                break
            self._make_space(spaces[generations.index(None)])
        versions = {g: s.version for g, s in zip(guards, others, strict=False)}
        nodes = dict(zip(keys, others[len(guards) :], strict=True))
        last = max(int(generation.mzxid) for generation in generations)
        return NodesRead(versions, nodes), last

    def _make_space(self, space: str) -> None:
        nodes = self._znodes.of_space(space)
        try:
            make_space(self._client, self._znodes, nodes, self._timeout_s)
        except (SessionExpiredError, KazooTimeoutError, *_LOST) as error:
            # The space may be there or not; no record was changed.
            self._usable()
            raise self._unreachable() from error
        except KazooException as error:
            # kazoo's errors do not leave this file.
            raise self._refused("a new space", error) from error

    def _send(self, transaction: Untyped) -> list[Any]:
        try:
            results: list[Any] = transaction.commit_async().get(self._timeout_s)
        except (SessionExpiredError, KazooTimeoutError, *_LOST) as error:
            # It was sent, or may still be: only a read shows the outcome.
            raise UnknownOutcomeError(
                f"{self.hosts}: the connection was lost before a commit was "
                "answered: read its records, then decide"
            ) from error
        return results

    def _await_absence(self, path: str) -> None:
        node = self._znodes.node(path)
        while True:
            seen = self._events
            (stat,) = self._ask(
                lambda: self._client.exists_async(node, self._wake_waiting)
            )
            if stat is None:
                return
            self._sleep(seen, _POLL_S)
