"""
The heartbeat of a host and the question for all hosts, as clients send them.
"""

from __future__ import annotations

import pytest
from lib.remoting.virtual_time_loop import run

from pystore.controller.client.client import ControllerClient
from pystore.controller.client.host_descriptions import (
    describe_hosts,
    hosts_page_of,
    send_host_heartbeat,
)
from pystore.controller.protocol.host_descriptions import (
    HostDescription,
    HostsPage,
    encode_hosts,
)
from pystore.errors import RemoteViolation, UnavailableError
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import encode_fields
from pystore.remoting.host_headers import DescribeHostsRequest, DescribeHostsResponse

ONE = HostDescription("h:1")


def test_without_a_leader_nothing_is_told() -> None:
    """
    The caller learns why, and never guesses.
    """

    async def main() -> None:
        async with ControllerClient(["127.0.0.1:1"], timeout_ms=500) as client:
            with pytest.raises(UnavailableError, match="no controller leads"):
                await send_host_heartbeat(client, ONE, 1_000)
            with pytest.raises(UnavailableError, match="no controller leads"):
                [one async for one in describe_hosts(client)]

    run(main())


def test_an_answer_is_a_page_and_the_next_request() -> None:
    """
    Or a refusal, such as that of a controller of RocketMQ, or damaged.
    """
    fields = encode_fields(DescribeHostsResponse(7, may_replace_master=True))
    answer = RemotingCommand(0, ext_fields=fields, body=encode_hosts([ONE]))
    expected = HostsPage(7, may_replace=True, hosts=(ONE,)), DescribeHostsRequest()
    assert expected == hosts_page_of(answer)
    more = encode_fields(DescribeHostsResponse(next_host="h:1"))
    answer = RemotingCommand(0, ext_fields=more, body=encode_hosts([ONE]))
    assert DescribeHostsRequest("h:1") == hosts_page_of(answer)[1]
    with pytest.raises(UnavailableError, match="refuses 7125, 3: no such code"):
        hosts_page_of(
            RemotingCommand(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="no such code"
            )
        )
    with pytest.raises(RemoteViolation):
        hosts_page_of(RemotingCommand(0, ext_fields=fields, body=b"{}"))
