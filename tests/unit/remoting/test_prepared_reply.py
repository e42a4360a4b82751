"""
A reply that is encoded once answers each request as if it were encoded for it.
"""

from __future__ import annotations

import pytest

from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import encode_frame
from pystore.remoting.prepared_reply import PreparedReply
from pystore.remoting.reply import Reply


@pytest.mark.parametrize(
    "reply",
    [
        Reply(),
        Reply(ext_fields={"pystoreLeaseMs": "0", "pystoreLeaseEpoch": "7"}),
        Reply(ext_fields={"opaque": "0", 'a"opaque":0,"': '"opaque":0,"'}),
        Reply(ResponseCode.SYSTEM_ERROR, 'remark "opaque":0,"', body=b'"opaque":0,"'),
    ],
)
@pytest.mark.parametrize("opaque", [0, 9, 10, 2**31 - 1, -1, -(2**31)])
def test_only_the_number_of_the_request_differs(reply: Reply, opaque: int) -> None:
    """Also if a text or the body looks like the place of the number."""
    request = RemotingCommand(904, opaque)

    assert encode_frame(reply.to(request)) == PreparedReply(reply).frame(opaque)


def test_it_is_the_reply_that_it_was_made_of() -> None:
    """For a handler that decides by the code."""
    reply = PreparedReply(Reply(5, "why", {"a": "b"}, b"c"))

    assert (5, "why", {"a": "b"}, b"c") == (
        reply.code,
        reply.remark,
        reply.ext_fields,
        reply.body,
    )
