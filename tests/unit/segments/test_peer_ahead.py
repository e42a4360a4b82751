"""
Blocks that are read in their order come ahead, and are always the wanted ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pystore import Message
from pystore.errors import UnavailableError
from pystore.net.address import parse_address
from pystore.seals import BLOCK_BYTES
from pystore.segments.copy import block_count
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_server import SegmentServer
from pystore.segments.store_copy import StoreCopy
from pystore.store.commit_log import CommitLog

SEGMENT = 5 * BLOCK_BYTES + 4096
BLOCKS = block_count(SEGMENT)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A store with two full segments of six blocks, the last of which is short.
    """
    root = tmp_path_factory.mktemp("ahead") / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        number = 0
        while log.end_offset < 2 * SEGMENT + 1000:
            log.append(Message("t", random.Random(number).randbytes(1 << 20)))
            number += 1
    return root


@pytest.fixture
def server(good: Path) -> Iterator[SegmentServer]:
    """
    Serves it.
    """
    with SegmentServer(good, "127.0.0.1") as found:
        yield found


@pytest.fixture
def peer(server: SegmentServer) -> Iterator[PeerCopy]:
    """
    A peer that is asked.
    """
    with closing(PeerCopy(server.address)) as found:
        yield found


def test_blocks_in_order_are_those_of_the_store(good: Path, peer: PeerCopy) -> None:
    """
    Over the end of one segment to the next one.
    """
    here = StoreCopy(good)
    for base in (0, SEGMENT):
        for index in range(BLOCKS):
            assert here.block(base, index) == peer.block(base, index)


def test_any_other_request_takes_its_own_answer(good: Path, peer: PeerCopy) -> None:
    """
    What was asked for ahead is dropped: other blocks, digests, facts.
    """
    here, chance = StoreCopy(good), random.Random(7)
    for _ in range(60):
        base = chance.choice((0, SEGMENT))
        for index in range(chance.randrange(BLOCKS), BLOCKS):
            assert here.block(base, index) == peer.block(base, index)
            if chance.random() < 0.4:
                break
        if chance.random() < 0.5:
            index = chance.randrange(BLOCKS)
            assert here.digests(base, [index]) == peer.digests(base, [index])
        assert "" == peer.problem(base)


def test_a_block_that_did_not_come_ahead_is_asked_for_again(
    good: Path, server: SegmentServer, peer: PeerCopy
) -> None:
    """
    The peer was started again between two blocks.
    """
    here = StoreCopy(good)
    assert here.block(0, 0) == peer.block(0, 0)
    assert here.block(0, 1) == peer.block(0, 1)
    server.close()
    # What the sockets hold of the block ahead is lost with the connection.
    with SegmentServer(good, "127.0.0.1", parse_address(server.address)[1]):
        for index in range(2, BLOCKS):
            try:
                found = bytes(peer.block(0, index))
            except UnavailableError:
                # Cut within the bytes of a block: the repair asks again.
                found = bytes(peer.block(0, index))
            assert here.block(0, index) == found


def test_a_refusal_ahead_is_told_when_the_block_is_asked_for(tmp_path: Path) -> None:
    """
    Such as for a segment that retention deletes meanwhile.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        while log.end_offset < SEGMENT + 1000:
            log.append(Message("t", bytes(1 << 20)))
    with (
        SegmentServer(root, "127.0.0.1") as server,
        closing(PeerCopy(server.address)) as peer,
    ):
        peer.block(0, 0)
        (root / "commitlog" / f"{0:020d}").unlink()
        for index in (1, 2):
            with pytest.raises(UnavailableError, match="No such file"):
                peer.block(0, index)
        assert "the file is missing" == peer.problem(0)


def test_a_peer_that_is_gone_is_no_answer(server: SegmentServer) -> None:
    """
    Also with a block under way.
    """
    with closing(PeerCopy(server.address)) as peer:
        peer.block(0, 0)
        peer.block(0, 1)
        server.close()
        with pytest.raises(UnavailableError):
            _read_all(peer)


def _read_all(peer: PeerCopy) -> None:
    for index in range(2, BLOCKS):
        peer.block(0, index)
