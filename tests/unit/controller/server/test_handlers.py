"""
The answers to brokers and administrators.
"""

from __future__ import annotations

from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run, until

from pystore.access.gate import Gate
from pystore.access.mode import AccessMode
from pystore.controller.model.codec import encode
from pystore.controller.model.limits import (
    CONNECTION_BROKERS_MAX,
    REQUEST_BYTES_MAX,
    STRANGERS_MAX,
)
from pystore.controller.model.state import SetState
from pystore.controller.protocol.server_codec import COMMANDS
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.death_check import DeathCheck
from pystore.controller.server.handlers import Handlers
from pystore.controller.server.leadership import OtherControllers
from pystore.controller.server.new_cluster import NewCluster
from pystore.controller.server.record_keys import set_key
from pystore.controller.server.user_records import UserRecords
from pystore.events.event import Event
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_bodies import encode_broker_names
from pystore.remoting.controller_headers import (
    ApplyBrokerIdRequest,
    BrokerHeartbeat,
    CleanBrokerDataRequest,
    ElectMasterRequest,
    GetNextBrokerIdRequest,
    GetReplicaInfoRequest,
)
from pystore.remoting.errors import NoAnswer
from pystore.remoting.operator_headers import (
    DeleteBrokerSetRequest,
    DescribeBrokerSetRequest,
)
from pystore.remoting.replica_bodies import decode_replicas


async def config(at: Running) -> str:
    """
    Returns what the controller shows of its settings.
    """
    return (await at.ask(RequestCode.GET_CONTROLLER_CONFIG)).body.decode()


def test_settings_change_except_for_locked_ones() -> None:
    """RMQ-T18: 1009 and 1010; RMQ-R257."""

    async def main() -> None:
        async with running() as at:
            assert "enableElectUncleanMaster=false\n" in await config(at)
            for body, code in (
                (b"enableElectUncleanMaster=true", ResponseCode.SUCCESS),
                (b"", ResponseCode.SUCCESS),
                (b"rocketmqHome=/", ResponseCode.NO_PERMISSION),
                (b"configBlackList=", ResponseCode.NO_PERMISSION),
                (b"configStorePath=/x", ResponseCode.NO_PERMISSION),
                (b"rocketmqHome=/\nlistenPort=1", ResponseCode.NO_PERMISSION),
                (b"listen=h:1", ResponseCode.SYSTEM_ERROR),
                (b"nonsense=1", ResponseCode.SYSTEM_ERROR),
                (b"\xff", ResponseCode.SYSTEM_ERROR),
            ):
                answer = await at.ask(RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)
                assert code == answer.code, body
            assert "enableElectUncleanMaster=true\n" in await config(at)

    run(main())


def test_a_list_of_sets_leaves_out_unknown_sets() -> None:
    """1006; RMQ-R248."""

    async def main() -> None:
        async with running() as at:
            await SpokenBroker(at, 1).join()
            code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
            answer = await at.ask(code, body=encode_broker_names(["set", "other"]))
            assert ["set"] == list(decode_replicas(answer.body))
            assert ResponseCode.SYSTEM_ERROR == (await at.ask(code)).code

    run(main())


def test_a_list_of_sets_leaves_out_one_with_a_damaged_record() -> None:
    """Asked for alone, it is refused, as each request about it (1006)."""

    async def main() -> None:
        space = MemorySpace()
        key, value = set_key("cluster", "ill"), encode(SetState("cluster", "ill"))
        MemoryStore(space).commit([Put(key, value.replace(b"ill", b"all"))])
        async with running(space) as at:
            await SpokenBroker(at, 1).join()
            code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
            answer = await at.ask(code, body=encode_broker_names(["ill", "set"]))
            assert ["set"] == list(decode_replicas(answer.body))
            for asked, header, body in (
                (code, None, encode_broker_names(["ill"])),
                (
                    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
                    GetNextBrokerIdRequest("cluster", "ill"),
                    b"",
                ),
            ):
                refused = await at.ask(asked, header, body)
                assert ResponseCode.SYSTEM_ERROR == refused.code
                assert "restore or rebuild it" in (refused.remark or "")

    run(main())


def test_a_name_without_a_cluster_means_the_only_set_of_it() -> None:
    """Or the set of the requesting broker; otherwise it is ambiguous (RMQ-R37)."""

    async def main() -> None:
        async with running() as at:
            broker = SpokenBroker(at, 1)
            await broker.join()
            asked = (
                RequestCode.CONTROLLER_GET_REPLICA_INFO,
                GetReplicaInfoRequest("set"),
            )
            assert ResponseCode.SUCCESS == (await at.ask(*asked)).code
            await at.ask(
                RequestCode.CONTROLLER_APPLY_BROKER_ID,
                ApplyBrokerIdRequest("elsewhere", "set", 1, "h:1;1"),
            )
            refused = await at.ask(*asked)
            assert "exists in the clusters cluster, elsewhere" in (refused.remark or "")
            await broker.elect()
            members = frozenset({broker.member})
            answer = await broker.alter(members, 1, 1)
            assert ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED == answer.code

    run(main())


def test_a_wrong_cluster_name_does_not_hide_the_set_that_has_a_master() -> None:
    """Once typed, an id is allocated under it, and perhaps cleaned again."""

    async def main() -> None:
        async with running() as at:
            broker = SpokenBroker(at, 1)
            await broker.join()
            await broker.elect()
            wrong = ApplyBrokerIdRequest("rgi", "set", 1, "h:1;1")
            await at.ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, wrong)
            for undo in (None, CleanBrokerDataRequest("set", "rgi")):
                if undo is not None:
                    done = await at.ask(RequestCode.CLEAN_BROKER_DATA, undo)
                    assert ResponseCode.SUCCESS == done.code
                for code, header in (
                    (
                        RequestCode.CONTROLLER_GET_REPLICA_INFO,
                        GetReplicaInfoRequest("set"),
                    ),
                    (RequestCode.DESCRIBE_BROKER_SET, DescribeBrokerSetRequest("set")),
                ):
                    answer = await at.ask(code, header)
                    assert ResponseCode.SUCCESS == answer.code, answer.remark
                code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
                answer = await at.ask(code, body=encode_broker_names(["set"]))
                assert 1 == decode_replicas(answer.body)["set"].master_broker_id

    run(main())


def test_a_deleted_set_is_found_no_more_and_its_ids_and_epochs_continue() -> None:
    """The record that stays holds the next id and the highest epoch, and no broker."""

    async def main() -> None:
        async with running() as at:
            broker = SpokenBroker(at, 1)
            await broker.join()
            await broker.elect()
            delete = (
                RequestCode.DELETE_BROKER_SET,
                DeleteBrokerSetRequest("set", "cluster"),
            )
            refused = await at.ask(*delete)
            code = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
            assert (code, "broker 1 is alive") == (
                refused.code,
                (refused.remark or "")[:17],
            )
            await broker.die()
            sets, names = at.controller.context, ("cluster", "set")
            await until(lambda: not sets.liveness.heard(names, 1, sets.clock_ns()))
            assert ResponseCode.SUCCESS == (await at.ask(*delete)).code
            gone = await at.ask(
                RequestCode.CONTROLLER_GET_REPLICA_INFO, GetReplicaInfoRequest("set")
            )
            assert ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST == gone.code
            again = SpokenBroker(at, 2)
            await again.join()
            assert (await again.elect()).master_epoch == 3

    run(main())


def test_another_cluster_is_another_set() -> None:
    """A wrong cluster name elects no master."""

    async def main() -> None:
        async with running() as at:
            await SpokenBroker(at, 1).join()
            answer = await at.ask(
                RequestCode.CONTROLLER_ELECT_MASTER,
                ElectMasterRequest("elsewhere", "set", 1, designate_elect=True),
            )
            assert ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED == answer.code

    run(main())


def test_names_that_do_not_fit_a_key_are_refused() -> None:
    """Whatever asks for them."""

    async def main() -> None:
        async with running() as at:
            for code in (
                RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
                RequestCode.BROKER_HEARTBEAT,
            ):
                # Each character takes six bytes in a key.
                header = GetNextBrokerIdRequest("c", "ö" * 128)
                answer = await at.ask(code, header, added={"brokerId": "1"})
                assert ResponseCode.SYSTEM_ERROR == answer.code
                assert "255 are allowed" in (answer.remark or "")

    run(main())


def test_a_text_above_its_limit_is_refused_in_any_request() -> None:
    """And nothing of it is kept: neither in the heartbeats nor in a record."""

    async def main() -> None:
        async with running() as at:
            await SpokenBroker(at, 1).join()
            context = at.controller.context
            deaths = DeathCheck(context, bool)
            handlers = Handlers(
                context,
                OtherControllers(context),
                deaths,
                NewCluster(context),
                users=UserRecords(""),
                gate=Gate(lambda: AccessMode.OFF, dict, bool, float),
            )
            table = handlers.table()
            assert {RequestCode.BROKER_HEARTBEAT, *COMMANDS} < table.keys()
            for code in table:
                answer = await at.ask(code, added={"brokerName": "b" * 129})
                assert ResponseCode.CONTROLLER_INVALID_REQUEST == answer.code, code
                assert "brokerName has 129 characters" in (answer.remark or "")
            assert not context.liveness.last_heartbeats(("", "b" * 129), 0)

    run(main())


def test_a_leader_forgets_heartbeats_of_names_that_nobody_registered() -> None:
    """And keeps those of registered brokers; one connection carries so many only."""

    async def main() -> None:
        async with running() as at:
            broker = SpokenBroker(at, 1)
            await broker.join()
            context = at.controller.context

            async def beat(client: RemotingClient, number: int) -> int:
                header = BrokerHeartbeat(1, "cluster", "h:1", f"set-{number}")
                code = RequestCode.BROKER_HEARTBEAT
                return (await at.ask(code, header, client=client)).code

            async with RemotingClient() as one, RemotingClient() as other:
                for number in range(CONNECTION_BROKERS_MAX):
                    assert ResponseCode.SUCCESS == await beat(one, number)
                refused = ResponseCode.CONTROLLER_INVALID_REQUEST
                assert refused == await beat(one, CONNECTION_BROKERS_MAX)
                for number in range(STRANGERS_MAX):
                    assert ResponseCode.SUCCESS == await beat(other, number + 10**6)
                now_ns = context.clock_ns()
                heard = context.liveness.heard
                assert heard(("cluster", "set-0"), 1, now_ns) is None
                assert heard(("cluster", "set"), 1, now_ns) is not None

    run(main())


def test_a_request_above_a_mebibyte_closes_its_connection_unread() -> None:
    """Thousands of peers may each keep as much of the memory of a controller."""

    async def main() -> None:
        for nameserver, is_read in (("", False), ("127.0.0.1:0", True)):
            settings = ControllerConfig(listen="127.0.0.1:0", nameserver=nameserver)
            async with running(settings=settings) as at:
                big = bytes(REQUEST_BYTES_MAX)
                code = RequestCode.UPDATE_CONTROLLER_CONFIG
                try:
                    answer = await at.ask(code, body=big)
                except NoAnswer:
                    # The connection was closed.
                    answer = None
                assert is_read == (answer is not None), nameserver
                assert is_read != any("are allowed" in line for line in at.said)

    run(main())


def test_a_heartbeat_is_taken_whether_it_wants_an_answer_or_not() -> None:
    """Java's are one-way; one without an id is 2005 (RMQ-R238)."""

    async def main() -> None:
        async with running() as at:
            fields = {"clusterName": "c", "brokerName": "b", "brokerId": "1"}
            request = RemotingCommand(RequestCode.BROKER_HEARTBEAT, ext_fields=fields)
            await at.client.send(at.address, request)
            context = at.controller.context
            await until(
                lambda: context.liveness.last_heartbeats(("c", "b"), context.clock_ns())
            )
            answer = await at.ask(RequestCode.BROKER_HEARTBEAT)
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == answer.code

    run(main())


def test_a_refused_broker_is_told_once_an_hour() -> None:
    """
    Its heartbeats arrive, and yet its set is not known: the reason is in the log.
    """

    async def main() -> None:
        async with running() as at:
            await SpokenBroker(at, 1).join()
            lost = SpokenBroker(at, 7, address="127.0.0.1:7")

            def refusals(of: int) -> list[str]:
                text = f"broker id {of}"
                return [one.text for one in at.told if text in one.text]

            for expected in (1, 2):
                for _ in range(3):
                    code = await lost.register()
                    assert ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED == code
                assert expected == len(refusals(7)), at.told
                move(3_600_000)
            assert "is refused, 2010 CONTROLLER_BROKER_NEED" in refusals(7)[0]
            wrong = ApplyBrokerIdRequest("cluster", "set", 9, "h:9;1")
            await at.ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, wrong)
            assert refusals(9)

    run(main())


def test_an_error_of_the_sink_of_events_fails_no_request() -> None:
    """
    What is committed is answered, though the program that listens is broken.
    """

    def broken(event: Event) -> None:
        raise RuntimeError(event.text)

    async def main() -> None:
        async with running() as at:
            context = at.controller.context
            assert context.leader is not None
            context.tell = context.leader._tell = broken
            await SpokenBroker(at, 1).join()
            answer = await at.ask(
                RequestCode.UPDATE_CONTROLLER_CONFIG,
                body=b"scanInactiveMasterInterval=700\n",
            )
            assert not answer.code
            told = await context.leader.history.read(("cluster", "set"))
            assert b"broker 1 registered" in b"".join(told)

    run(main())
