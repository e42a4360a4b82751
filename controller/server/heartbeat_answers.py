"""
Answers the heartbeats of brokers, thousands in a second. For one event loop.

Most heartbeats of a broker differ from the one before only in the ends of its log.
Those of brokers with a record are not decoded then.

Source: formats 4.8; RMQ-R238, RMQ-R239; C0, C1, C3; docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from functools import lru_cache, partial

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.controller.model.limits import CONNECTION_BROKERS_MAX, check_fields
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.cluster_id import cluster_id_fields
from pystore.controller.protocol.extensions import LeaseGrant, lease_fields
from pystore.controller.server.cluster_check import ClusterCheck
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.heartbeat_codec import BrokerBeat, heartbeat_of
from pystore.controller.server.new_cluster import NewCluster
from pystore.controller.server.record_keys import set_key
from pystore.controller.server.term import LeaderTerm
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import MissingField
from pystore.remoting.prepared_reply import PreparedReply
from pystore.remoting.reply import Reply
from pystore.replicaset import Member

__all__ = ["HeartbeatAnswers"]


@lru_cache(maxsize=4096)
def _lease(length_ms: int, epoch: int, cluster_id: str) -> PreparedReply:
    """
    The answer to heartbeats, thousands of times a second.
    """
    lease = lease_fields(LeaseGrant(length_ms, epoch))
    return PreparedReply(Reply(ext_fields=lease | cluster_id_fields(cluster_id)))


def _no_lease(epoch: int) -> PreparedReply:
    """
    The answer to all brokers but masters of pystore: a refusal names the epoch that it
    refuses (C0).
    """
    return _lease(0, epoch, "")


class HeartbeatAnswers:
    """
    The answers of one controller to 904.

    Args:
        context: of the controller.
        cluster: refuses brokers of another record store.
        new_cluster: takes note of brokers while the record store is empty.
        numbers: of the open connections.
        clusters: the set of the last heartbeat of each connection; written here.
    """

    def __init__(
        self,
        context: ControllerContext,
        cluster: ClusterCheck,
        new_cluster: NewCluster,
        numbers: Mapping[Connection, int],
        clusters: MutableMapping[Connection, SetKey],
    ) -> None:
        self._context = context
        self._cluster = cluster
        self._new_cluster = new_cluster
        self._numbers = numbers
        self._clusters = clusters

    def answer(self, request: RemotingCommand, peer: Connection) -> Reply:
        """
        Takes a heartbeat, and returns its answer: with a lease, if it is of a master of
        pystore.

        Raises:
            MissingField: it is refused.
            InvalidError: its names are too long.
        """
        check_fields(request.ext_fields)
        refused = self._cluster.refusal(request, peer)
        if refused is not None:
            return refused
        number = self._numbers[peer]
        beat = heartbeat_of(request, number, self._context.cluster_id)
        if self._clusters.get(peer) != beat.names:
            # The first heartbeat of the connection: the names must fit a key.
            set_key(*beat.names)
            self._clusters[peer] = beat.names
        if not self._context.liveness.has_room(
            number, beat.names, beat.heartbeat.broker_id
        ):
            raise MissingField(
                f"this connection carries the heartbeats of {CONNECTION_BROKERS_MAX} "
                "brokers, as many as it may",
                ResponseCode.CONTROLLER_INVALID_REQUEST,
            )
        is_new = self._context.liveness.receive(
            beat.names, beat.heartbeat, self._context.clock_ns()
        )
        if not self._context.cluster_id:
            self._new_cluster.note_broker(
                beat.names, beat.heartbeat.broker_id, peer.peer
            )
        leader = self._context.leader
        if leader is None:
            return _no_lease(beat.epoch)
        if is_new:
            leader.check_soon(beat.names)
        if beat.resigned_epoch >= 0:
            member = Member(beat.heartbeat.broker_id, beat.heartbeat.incarnation)
            leader.resign(beat.names, member, beat.resigned_epoch)
            if beat.resigned_epoch >= beat.epoch:
                # A lease now would make the next master wait for it in vain. A later
                # mastership of the same process has one.
                return _no_lease(beat.epoch)
        elif self._context.cluster_id and self._context.is_registered(
            beat.names, beat.heartbeat.broker_id
        ):
            # A stranger is not preferred, and no form is kept of its heartbeats.
            peer.prefer()
            again = partial(self._answer_again, peer, beat, self._context.cluster_id)
            peer.expect_repeats(request, beat.ends, again)
        return self._granted(leader, beat, beat.heartbeat)

    def _answer_again(
        self,
        peer: Connection,
        beat: BrokerBeat,
        cluster_id: str,
        numbers: Sequence[int],
    ) -> PreparedReply | None:
        """
        Answers a heartbeat that differs from an earlier one in the ends of its log
        only; ``None``: it has to be decoded.
        """
        context, heartbeat = self._context, beat.again(numbers[1:])
        leader = context.leader
        if leader is None or context.cluster_id != cluster_id:
            return None
        if not context.liveness.repeat(beat.names, heartbeat, context.clock_ns()):
            return None
        self._clusters[peer] = beat.names
        return self._granted(leader, beat, heartbeat)

    def _granted(
        self, leader: LeaderTerm, beat: BrokerBeat, heartbeat: Heartbeat
    ) -> PreparedReply:
        length_ms, epoch = leader.grant(beat.names, heartbeat, beat.epoch)
        if not length_ms:
            return _no_lease(beat.epoch)
        return _lease(length_ms, epoch, self._context.cluster_id)
