"""
When a controller begins a new cluster in an empty record store. For one event loop.

An empty record store is that of a new cluster, or what is left of a lost one: then its
brokers have ids and epochs that would be given again. A broker that tells an id or the
UUID of a record store to an empty one is evidence of the second, and nothing begins
while it is there, until an operator says that this is a new cluster.

Source: docs/identity.md, *The identity of the controllers*.
"""

from __future__ import annotations

import asyncio

from pystore.controller.model.commands import ApplyId, Command, GetNextId, Register
from pystore.controller.model.state import SetKey
from pystore.controller.server.cluster_identity import begun_cluster, cluster_id_in
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.store_threads import CallKind
from pystore.controller.server.term import LeaderTerm
from pystore.records.record_store import RecordStore
from pystore.records.term import Term
from pystore.remoting.codes import ResponseCode
from pystore.remoting.reply import Reply

__all__ = ["NewCluster"]

_EVIDENCE_NS = 60 * 1_000_000_000
_EMPTY = (
    "the record store is empty: restore or rebuild it (`pystore admin rebuildSet`), or "
    "start once with --new-cluster if this is a new cluster"
)


class NewCluster:
    """
    The begin of one cluster, as one controller sees it.

    Args:
        context: of the controller. Its `ControllerContext.cluster_id` is set once the
            record store has one.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._lock = asyncio.Lock()
        self._evidence = ""
        self._evidence_ns: int | None = None
        self._lost = ""
        self._said = ""

    @property
    def is_awaited(self) -> bool:
        """
        Whether this controller leads over an empty record store.
        """
        return self._context.leader is not None and not self._context.cluster_id

    async def look(self, store: RecordStore, term: Term, *, has_sets: bool) -> None:
        """
        Reads the UUID at the begin of a term. An operator's word begins a cluster, and
        so do sets of an older pystore, which made no UUID.

        Raises:
            PystoreError: as `cluster_id_in` and `begun_cluster`.
        """
        context, run = self._context, self._context.threads.run
        found = await run(CallKind.OTHER, cluster_id_in, store)
        if not found and (has_sets or context.settings.now.new_cluster):
            found = await self._begun(store, term)
        if found:
            self._lost = ""
        elif context.cluster_id:
            self._lost = context.cluster_id
        self._said = ""
        context.cluster_id = found

    def note_evidence(self, who: str) -> None:
        """
        Takes note of evidence of an older cluster: a broker that has an id or a UUID.
        """
        if self._context.cluster_id:
            return
        self._evidence, self._evidence_ns = who, self._context.clock_ns()
        if self.is_awaited:
            self._tell()

    def note_broker(self, names: SetKey, broker_id: int, peer: str) -> None:
        """
        Takes note of a broker that tells its id.
        """
        if not self._context.cluster_id:
            cluster, name = names
            self.note_evidence(
                f"{peer} is broker {broker_id} of set {name} of {cluster}"
            )

    async def refusal(self, leader: LeaderTerm, command: Command) -> Reply | None:
        """
        Returns the refusal of a broker that registers or wants an id; ``None``: it is
        served. The first application for an id begins the cluster.

        Raises:
            PystoreError: the record store cannot be read or written.
        """
        if not isinstance(command, GetNextId | ApplyId | Register):
            return None
        reason = self.reason
        if reason:
            self._tell()
            return Reply(ResponseCode.CLUSTER_NOT_BEGUN, reason)
        if isinstance(command, ApplyId):
            async with self._lock:
                store = self._context.store
                if store is not None and self.is_awaited:
                    found = await self._begun(store, leader.authority.term)
                    if self._context.leader is leader:
                        self._context.cluster_id = found
        return None

    @property
    def reason(self) -> str:
        """
        Why no cluster begins, as one line; empty: nothing is against it.
        """
        if self._lost:
            return f"{_EMPTY}; this controller led over that of {self._lost}"
        told_ns = self._evidence_ns
        if told_ns is None or self._context.clock_ns() - told_ns > _EVIDENCE_NS:
            return ""
        return f"{_EMPTY}; {self._evidence}"

    async def rebuilt(self, leader: LeaderTerm, cluster_id: str) -> Reply | None:
        """
        Lets an empty record store be that of a lost cluster, for an import.

        Args:
            leader: the term.
            cluster_id: its UUID; empty: nobody knows it, so there is a new one.

        Returns:
            the refusal: the record store is another one; ``None``: none.

        Raises:
            PystoreError: the record store cannot be read or written.
        """
        context = self._context
        async with self._lock:
            if context.store is not None and self.is_awaited:
                found = await self._begun(
                    context.store, leader.authority.term, cluster_id
                )
                if context.leader is leader:
                    context.cluster_id = found
        if cluster_id and cluster_id != context.cluster_id:
            return Reply(
                ResponseCode.OTHER_CLUSTER,
                f"the records are of {cluster_id}, and these controllers have the "
                f"record store {context.cluster_id}: import them into an empty one",
            )
        return None

    async def _begun(self, store: RecordStore, term: Term, cluster_id: str = "") -> str:
        bits = self._context.draw.getrandbits(128)
        run = self._context.threads.run
        return await run(CallKind.OTHER, begun_cluster, store, term, bits, cluster_id)

    def _tell(self) -> None:
        # Brokers ask each second: one line is enough until the reason is another.
        if not self._said:
            self._said = self.reason
            self._context.say(f"no cluster begins: {self._said}")
