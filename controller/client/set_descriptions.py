"""
Asks the leading controller for the description of all sets, or of one (7118).

Source: docs/controller.md, *All sets at once*.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.cluster_id import (
    cluster_id_fields,
    cluster_id_of,
    refusal_of,
)
from pystore.controller.protocol.set_descriptions import SetsPage, decode_sets
from pystore.errors import RemoteViolation, UnavailableError
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.operator_headers import (
    DescribeSetsRequest,
    DescribeSetsResponse,
)

__all__ = ["describe_set", "describe_sets", "page_of"]


async def describe_sets(client: ControllerClient) -> AsyncIterator[SetsPage]:
    """
    Yields the description of all sets that have brokers, page by page, each told under
    the authority of the controller that led at that moment. Another one may tell the
    next page: each page says for how long its controller has led.

    Args:
        client: to the controllers; of its loop.

    Raises:
        UnavailableError: no controller leads, it does not answer, it refuses, or its
            answer is invalid. What was yielded before is a part only.
    """
    async for page in _pages(client, DescribeSetsRequest()):
        yield page


async def describe_set(client: ControllerClient, cluster: str, name: str) -> SetsPage:
    """
    Returns the description of one set, as a page with it alone; a page without sets:
    there is none of that name.

    Args:
        client: to the controllers; of its loop.
        cluster: of the set.
        name: of the set.

    Raises:
        UnavailableError: as of `describe_sets`.
    """
    first = DescribeSetsRequest(only_cluster=cluster, only_name=name)
    async for page in _pages(client, first):
        # A controller that does not know this question tells all sets.
        sets = tuple(
            one for one in page.sets if (one.cluster, one.name) == (cluster, name)
        )
        damaged = tuple(one for one in page.damaged if one == (cluster, name))
        found = replace(page, sets=sets, damaged=damaged)
        if sets or damaged:
            break
    return found


async def _pages(
    client: ControllerClient, header: DescribeSetsRequest
) -> AsyncIterator[SetsPage]:
    only = {"only_cluster": header.only_cluster, "only_name": header.only_name}
    own = client.cluster_id
    while True:
        fields = encode_fields(header) | (cluster_id_fields(own) if own else {})
        request = RemotingCommand(RequestCode.DESCRIBE_SETS, ext_fields=fields)
        answer = await client.call_leader(request)
        refusal = refusal_of(own, cluster_id_of(answer.ext_fields))
        if refusal:
            raise UnavailableError(refusal)
        try:
            page, header = page_of(answer)
        except RemoteViolation as error:
            raise UnavailableError(f"the answer to 7118 is invalid: {error}") from error
        yield page
        if not (header.after_cluster or header.after_name):
            return
        header = replace(header, **only)


def page_of(answer: RemotingCommand) -> tuple[SetsPage, DescribeSetsRequest]:
    """
    Returns the page of an answer to 7118, and the request for the next one; with empty
    names it is the last.

    Raises:
        UnavailableError: it is a refusal.
        RemoteViolation: it is invalid.
    """
    if answer.code != ResponseCode.SUCCESS:
        remark = " ".join((answer.remark or "").split())[:200]
        raise UnavailableError(f"the controller refuses 7118, {answer.code}: {remark}")
    told = decode_fields(DescribeSetsResponse, answer.ext_fields)
    sets, damaged = decode_sets(answer.body)
    page = SetsPage(told.led_millis, told.may_replace_master, sets, damaged)
    return page, DescribeSetsRequest(told.next_cluster, told.next_name)
