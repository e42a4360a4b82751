"""
Answers the requests of brokers and administrators to a controller.

A controller that does not lead answers 2007 to each request about a set, and names the
leader in its answer to 1005. Every controller takes heartbeats.

Source: formats 4.1, 4.5 to 4.8, 4.11; RMQ-R221, RMQ-R238, RMQ-R241, RMQ-R247 to
RMQ-R249, RMQ-R257.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from pystore.access.gate import Gate
from pystore.clocks import wall_ms
from pystore.controller.model.commands import Elect, Register, Trigger
from pystore.controller.model.decision import Rejected
from pystore.controller.model.events import MasterElected
from pystore.controller.model.limits import check_fields
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.server_codec import COMMANDS, SetCommand
from pystore.controller.protocol.server_codec_answers import (
    answer,
    replica_info_answer,
    sync_state_answer,
)
from pystore.controller.protocol.set_extensions import links_fields
from pystore.controller.server.audit import AuditLog, order_of
from pystore.controller.server.broker_sets import CommandOutcome, NotLeading
from pystore.controller.server.cluster_check import ClusterCheck
from pystore.controller.server.config import properties_text, shown
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.controller_events import SettingsChanged
from pystore.controller.server.death_check import DeathCheck
from pystore.controller.server.describe import unclean_details
from pystore.controller.server.describe_sets import DescribeSets
from pystore.controller.server.heartbeat_answers import HeartbeatAnswers
from pystore.controller.server.host_handlers import HostHandlers
from pystore.controller.server.leadership import OtherControllers
from pystore.controller.server.link_handlers import LinkHandlers
from pystore.controller.server.new_cluster import NewCluster
from pystore.controller.server.set_transfer import SetTransfer
from pystore.controller.server.store_threads import CallKind
from pystore.controller.server.term import LeaderTerm
from pystore.controller.server.user_handlers import UserHandlers
from pystore.controller.server.user_records import UserRecords
from pystore.errors import FormatError, InvalidError, UnavailableError
from pystore.events.event import hand_over
from pystore.records.ops import Op
from pystore.records.record_store import RecordStore
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.controller_bodies import decode_broker_names
from pystore.remoting.controller_headers import (
    GetMetadataResponse,
    GetReplicaInfoRequest,
)
from pystore.remoting.dispatch import Handling
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.operator_headers import (
    BrokerSetEventsRequest,
    DescribeBrokerSetRequest,
    ElectUncleanRequest,
)
from pystore.remoting.reply import Reply
from pystore.rocketmq.properties_file import parse_properties_text

__all__ = ["Handlers"]

_LOCKED = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
"""Settings that RocketMQ does not allow to change."""


_Handle = Callable[[RemotingCommand, Connection], Handling]


class Handlers:
    """
    The answers of one controller. For one event loop.

    Args:
        context: the context of that controller.
        others: finds the leader.
        deaths: is asked for brokers whose connection has ended, or whose id another
            process wants.
        new_cluster: decides whether an empty record store becomes a cluster.
        users: as this controller knows them.
        gate: verifies the requests to brokers.
    """

    def __init__(
        self,
        context: ControllerContext,
        others: OtherControllers,
        deaths: DeathCheck,
        new_cluster: NewCluster,
        *,
        users: UserRecords,
        gate: Gate,
    ) -> None:
        self._context = context
        self._others = others
        self._deaths = deaths
        self._counter = itertools.count(1)
        self._numbers: dict[Connection, int] = {}
        self._clusters: dict[Connection, SetKey] = {}
        self._new_cluster = new_cluster
        self._cluster = ClusterCheck(context, new_cluster)
        self._beats = HeartbeatAnswers(
            context, self._cluster, new_cluster, self._numbers, self._clusters
        )
        self._sets = SetTransfer(context, new_cluster, self._leading)
        self._all_sets = DescribeSets(context, self._leading)
        self._hosts = HostHandlers(context, self._leading)
        self._users = UserHandlers(context, users, self._leading, gate)
        self._links = LinkHandlers(context, users, self._leading, gate)

    def table(self) -> Mapping[int, Handler]:
        """
        Returns the handlers by request code.
        """
        own: dict[int, _Handle] = {
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self._replica_info,
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._sync_state,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self._update_config,
            RequestCode.GET_CONTROLLER_CONFIG: self._config,
            RequestCode.DESCRIBE_BROKER_SET: self._describe,
            RequestCode.DESCRIBE_SETS: self._all_sets.answer,
            RequestCode.HOST_HEARTBEAT: self._hosts.take,
            RequestCode.DESCRIBE_HOSTS: self._hosts.answer,
            RequestCode.FORGET_HOST: self._hosts.forget,
            RequestCode.BROKER_SET_EVENTS: self._events,
            RequestCode.ELECT_UNCLEAN: self._elect_unclean,
            RequestCode.TRANSFER_CONTROLLER: self._transfer,
            RequestCode.EXPORT_SETS: self._sets.export,
            RequestCode.IMPORT_SET: self._sets.take,
        }
        own[RequestCode.GET_LINK_SECRETS] = self._links.answer
        own |= self._users.table()
        own |= dict.fromkeys(COMMANDS, self._command)
        led = {code: self._cluster.checked(_refusing(one)) for code, one in own.items()}
        return {RequestCode.BROKER_HEARTBEAT: self._beats.answer, **led}

    def opened(self, connection: Connection) -> None:
        """
        Takes note of a new connection.
        """
        number = next(self._counter)
        self._numbers[connection] = number
        self._context.connections[number] = connection

    def closed(self, connection: Connection) -> None:
        """
        Takes note of the end of a connection. The brokers that sent heartbeats on it
        may be dead (RMQ-R241).
        """
        self._clusters.pop(connection, None)
        number = self._numbers.pop(connection, None)
        self._context.connections.pop(number or 0, None)
        if number is not None:
            for names, broker_id in self._context.liveness.close(number):
                self._deaths.suspect(names, broker_id)

    async def _command(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        asked = COMMANDS[RequestCode(request.code)](request)
        names = self._resolved(leader, asked, peer)
        register = asked.command if isinstance(asked.command, Register) else None
        if register is not None and not self._may_register(names, register, peer):
            return _late(register.broker_id, peer)
        if not self._context.cluster_id:
            if register is not None:
                self._new_cluster.note_broker(names, register.broker_id, peer.peer)
            refused = await self._new_cluster.refusal(leader, asked.command)
            if refused is not None:
                return refused
        by, order = request.asked_by(peer.peer), order_of(request, peer.peer)
        outcome = await leader.ask(names, asked.command, by, order)
        if outcome.state.is_known and not isinstance(outcome.decision, Rejected):
            peer.prefer()
        if register is not None:
            self._registered(names, register, peer, outcome)
        told = answer(asked.command, outcome.decision, outcome.state)
        return self._with_links(told)

    def _may_register(self, names: SetKey, one: Register, peer: Connection) -> bool:
        number = self._numbers.get(peer, 0)
        return self._context.liveness.may_register(
            names, one.broker_id, one.incarnation, number
        )

    def _registered(
        self, names: SetKey, one: Register, peer: Connection, outcome: CommandOutcome
    ) -> None:
        if isinstance(outcome.decision, Rejected):
            self._deaths.claimed(names, one.broker_id)
        elif peer in self._numbers:
            self._context.liveness.registered(
                names, one.broker_id, one.incarnation, self._numbers[peer]
            )

    async def _replica_info(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        header = decode_fields(GetReplicaInfoRequest, request.ext_fields)
        names = self._named(leader, header.broker_name, peer)
        return self._with_links(replica_info_answer(leader.sets.state(names)))

    def _with_links(self, told: Reply) -> Reply:
        """
        Adds how links are guarded, which all brokers have to know with the master.
        """
        fields = links_fields(self._links.mode)
        if not fields:
            return told
        return replace(told, ext_fields={**told.ext_fields, **fields})

    async def _sync_state(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        if not request.body:
            return Reply(
                ResponseCode.SYSTEM_ERROR, "the body has to name the broker sets"
            )
        names = decode_broker_names(request.body)
        states = []
        for name in names:
            try:
                states.append(leader.sets.state(self._named(leader, name, peer)))
            except (FormatError, InvalidError):
                # It is damaged or ambiguous: the others of a list are answered.
                if len(names) == 1:
                    raise
        return sync_state_answer(
            (one, leader.facts(one)) for one in states if one.is_known
        )

    async def _metadata(self, _: RemotingCommand, __: Connection) -> Reply:
        leader = self._context.leader
        is_leader = leader is not None and leader.is_proven
        found, peers = await self._others.read()
        led_by = self._context.address if is_leader else found
        told = GetMetadataResponse(
            self._context.settings.now.controller_group,
            led_by or None,
            led_by or None,
            is_leader,
            "".join(f"{one};" for one in sorted({*peers, self._context.address})),
        )
        return Reply(ext_fields=encode_fields(told))

    async def _describe(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        header = decode_fields(DescribeBrokerSetRequest, request.ext_fields)
        names = self._asked(leader, header, peer)
        if not leader.sets.state(names).version:
            return _absent(header.broker_name)
        return Reply(body=leader.describe(names))

    async def _events(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        header = decode_fields(BrokerSetEventsRequest, request.ext_fields)
        names = self._asked(leader, header, peer)
        if not leader.sets.state(names).version:
            return _absent(header.broker_name)
        return Reply(body=b"\n".join(await leader.history.read(names)))

    async def _elect_unclean(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        header = decode_fields(ElectUncleanRequest, request.ext_fields)
        names = self._asked(leader, header, peer)
        command = Elect(Trigger.OPERATOR, header.broker_id, is_unclean=True)
        before = leader.sets.state(names)
        decision, facts = leader.foresee(names, command)
        if header.is_confirmed:
            by, order = request.asked_by(peer.peer), order_of(request, peer.peer)
            outcome = await leader.ask(names, command, by, order)
            decision = outcome.decision
        if isinstance(decision, Rejected) or not decision.events:
            # Refused, or the broker is master already.
            return answer(command, decision, before)
        (elected,) = (
            one.change
            for one in decision.events
            if isinstance(one.change, MasterElected)
        )
        return Reply(
            body=unclean_details(before, facts, elected, is_done=header.is_confirmed)
        )

    async def _transfer(self, request: RemotingCommand, peer: Connection) -> Reply:
        leader = self._leading()
        peers = (await self._others.read(is_fresh=True))[1]
        if not set(peers) - {self._context.address}:
            return Reply(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                "no other controller is running",
            )
        order = order_of(request, peer.peer)
        assert order is not None
        own = self._context.address
        line = leader.audit.ops(order, "the leadership", own, "another controller")
        ops = [leader.authority.term.check, *line]
        await self._context.threads.run(CallKind.OTHER, self._session().commit, ops)
        self._context.say(
            f"{request.asked_by(peer.peer)} transfers the leadership to another "
            "controller"
        )
        leader.give_up()
        return Reply()

    async def _update_config(self, request: RemotingCommand, peer: Connection) -> Reply:
        texts = parse_properties_text(request.body.decode(), "the body of 1009")
        locked = sorted(_LOCKED & texts.keys())
        if locked:
            return Reply(
                ResponseCode.NO_PERMISSION, f"{', '.join(locked)} cannot be changed"
            )
        locked_out = self._users.lock_out(texts)
        if locked_out:
            return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, locked_out)
        if not texts:
            return Reply()
        change = SettingsChanged(
            time_ms=wall_ms(),
            controller=self._context.address,
            asked_by=request.asked_by(peer.peer),
            settings=texts,
        )
        differences = await self._context.threads.run(
            CallKind.OTHER,
            self._context.settings.change,
            self._session(),
            texts,
            change.author,
            self._audited(request, peer, texts),
        )
        hand_over(change, self._context.tell)
        return Reply(remark="; ".join(differences))

    def _audited(
        self, request: RemotingCommand, peer: Connection, texts: Mapping[str, str]
    ) -> list[Op]:
        order = order_of(request, peer.peer)
        assert order is not None
        known = shown(self._context.settings.now)
        before = {name: known.get(name, "") for name in texts}
        # Any controller changes settings; the lines of others are later or earlier.
        leader = self._context.leader
        audit = AuditLog() if leader is None else leader.audit
        return audit.ops(order, "settings", _line(before), _line(texts))

    async def _config(self, _: RemotingCommand, __: Connection) -> Reply:
        store = self._context.store
        if store is not None:
            read = self._context.settings.read
            await self._context.threads.run(CallKind.OTHER, read, store)
        settings = self._context.settings
        notes = "".join(f"# {one}\n" for one in settings.differences)
        return Reply(body=(notes + properties_text(shown(settings.now))).encode())

    # -- finding the set --------------------------------------------------------

    def _leading(self) -> LeaderTerm:
        leader = self._context.leader
        if leader is None:
            raise NotLeading("this controller does not lead")
        leader.require_proof()
        return leader

    def _session(self) -> RecordStore:
        store = self._context.store
        if store is None:
            raise UnavailableError("the record store is not connected; try again")
        return store

    def _resolved(
        self, leader: LeaderTerm, asked: SetCommand, peer: Connection
    ) -> SetKey:
        if asked.creates or asked.cluster:
            return asked.cluster, asked.name
        return self._named(leader, asked.name, peer)

    def _asked(
        self,
        leader: LeaderTerm,
        header: DescribeBrokerSetRequest | BrokerSetEventsRequest | ElectUncleanRequest,
        peer: Connection,
    ) -> SetKey:
        if header.cluster_name:
            return header.cluster_name, header.broker_name
        return self._named(leader, header.broker_name, peer)

    def _named(self, leader: LeaderTerm, name: str, peer: Connection) -> SetKey:
        """
        Returns the set of a request without a cluster: the set of the requester, or the
        only set of that name.
        """
        own = self._clusters.get(peer)
        if own is not None and own[1] == name and leader.sets.has_record(own):
            return own
        clusters = leader.sets.clusters(name)
        if len(clusters) > 1:
            raise InvalidError(
                f"broker set {name} exists in the clusters "
                f"{', '.join(sorted(clusters))}: name one of them"
            )
        return (clusters[0] if clusters else ""), name


def _line(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in sorted(texts.items()))


def _late(broker_id: int, peer: Connection) -> Reply:
    """
    Refuses the registration of a process before the present one, and ends the
    connection: a process that is not dead, as the original of a copy that ran while it
    was paused, connects again, and is judged as any other.
    """
    peer.retire()
    return Reply(
        ResponseCode.CONTROLLER_INVALID_REQUEST,
        f"broker {broker_id}: a later process of this broker has connected: this "
        "connection is closed, and the process that uses it has to connect again",
    )


def _absent(name: str) -> Reply:
    return Reply(
        ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
        f"broker set {name} does not exist",
    )


def _refusing(
    handle: _Handle,
) -> Callable[[RemotingCommand, Connection], Awaitable[Reply]]:
    async def answered(request: RemotingCommand, peer: Connection) -> Reply:
        check_fields(request.ext_fields)
        try:
            return await handle(request, peer)
        except NotLeading as error:
            # Nothing was done: the client asks for the leader with 1005.
            return Reply(ResponseCode.CONTROLLER_NOT_LEADER, str(error))

    return answered
