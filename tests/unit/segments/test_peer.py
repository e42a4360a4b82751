"""
A copy that a peer serves mends as a store of this machine does.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from lib.certificates import Authority
from lib.command_line import overwrite, segment_file
from lib.rate_clock import RateClock
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Message, Store
from pystore.errors import InvalidError, PystoreError, RemoteViolation, UnavailableError
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls, ServerTls, TlsConfig, TlsMode
from pystore.rates.shared_rate import SharedRate
from pystore.segments.mending import mend_closed
from pystore.segments.open_copies import open_copies
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_protocol import (
    decode_message,
    encode_message,
    facts_json,
    facts_of,
)
from pystore.segments.peer_server import SegmentServer
from pystore.segments.store_copy import StoreCopy
from pystore.verify import verify_store


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store.
    """
    root = tmp_path_factory.mktemp("good") / "store"
    fill(root, 900)
    seal(root)
    return root


@pytest.fixture
def bad(good: Path, tmp_path: Path) -> Path:
    """
    A copy with a bad block, a missing file, and a late begin.
    """
    follow_from(good, tmp_path / "bad", 3 * SEGMENT)
    overwrite(segment_file(tmp_path / "bad", 4 * SEGMENT), 700, b"????")
    segment_file(tmp_path / "bad", 6 * SEGMENT).unlink()
    return tmp_path / "bad"


@pytest.fixture
def served(good: Path) -> Iterator[SegmentServer]:
    """
    The whole store, served with plain bytes.
    """
    with SegmentServer(good, "127.0.0.1") as server:
        yield server


def peer_of(
    address: str, tls: ClientTls | None = None
) -> AbstractContextManager[PeerCopy]:
    """
    A peer whose connection is closed afterwards.
    """
    return closing(PeerCopy(address, tls))


def test_a_peer_says_what_its_store_says(good: Path, served: SegmentServer) -> None:
    """
    Facts, seals, digests and bytes.
    """
    here = StoreCopy(good)
    with peer_of(served.address) as there:
        assert here.facts == there.facts
        for base in here.facts.bases():
            assert here.problem(base) == there.problem(base)
            assert here.seal(base) == there.seal(base)
            assert here.digests(base, [0]) == there.digests(base, [0])
            assert here.damaged_blocks(base) == there.damaged_blocks(base) == set()
            assert here.block(base, 0) == there.block(base, 0)


def test_a_store_is_mended_from_a_peer(
    good: Path, bad: Path, served: SegmentServer
) -> None:
    """
    Blocks, a whole file, and what is below the log.
    """
    with open_copies([served.address]) as copies:
        done = mend_closed(bad, copies, bad.parent / "kept")

    assert [4, 6, 2, 1, 0] == [step.base // SEGMENT for step in done.done]
    assert [] == done.unmended
    report = verify_store(bad)
    assert ("whole", 0) == (report.verdict, report.queues.missing)
    for path in sorted((good / "commitlog").iterdir())[:-1]:
        assert path.read_bytes() == (bad / "commitlog" / path.name).read_bytes()


def test_peers_share_the_rate_at_which_a_store_is_served(good: Path) -> None:
    """
    Blocks count, and digests: they are read from the same disk.
    """
    clock = RateClock()
    rate = SharedRate(1_000_000, clock.read, clock.sleep)
    with (
        SegmentServer(good, "127.0.0.1", rate=rate) as server,
        peer_of(server.address) as one,
        peer_of(server.address) as other,
    ):
        for base in range(0, 4 * SEGMENT, SEGMENT):
            one.block(base, 0)
            other.digests(base, [0])
        one.problem(0)  # its answer comes when the last block is paid for
        other.problem(0)
    assert 8 * SEGMENT == rate.moved_bytes
    paused_s = (clock.now_ms - 1_000) / 1000
    assert paused_s >= 0.9 * (8 * SEGMENT - 100_000) / 1_000_000


def test_a_peer_that_went_away_is_asked_again(
    good: Path, served: SegmentServer
) -> None:
    """
    A repair takes the next copy meanwhile.
    """
    with open_copies([served.address, str(good)]) as (peer, store):
        served.close()
        with pytest.raises(UnavailableError, match="no answer"):
            peer.block(0, 0)
        with SegmentServer(good, "127.0.0.1", parse_address(served.address)[1]):
            assert peer.block(0, 0) == store.block(0, 0)


def test_a_block_of_another_segment_is_not_served(served: SegmentServer) -> None:
    """
    Neither the one that takes the appends, nor one that is no segment.
    """
    with peer_of(served.address) as peer:
        for base in (peer.facts.end - peer.facts.end % SEGMENT, -SEGMENT, 100):
            with pytest.raises(UnavailableError, match="no settled segment at"):
                peer.block(base, 0)
        assert len(peer.block(0, 0)) == SEGMENT


@pytest.mark.parametrize(
    "content",
    [b"\0\0\0\1x", b"\xff\xff\xff\xff", struct.pack(">I", 2) + b"[]", b"\0\0\0\2{}"],
)
def test_a_peer_that_sends_other_bytes_is_closed(
    served: SegmentServer, content: bytes
) -> None:
    """
    The others are served on.
    """
    with socket.create_connection(parse_address(served.address), 5) as stranger:
        stranger.sendall(content)
        found = stranger.recv(1000)
        assert not found or b"error" in found
    with peer_of(served.address) as peer:
        assert peer.facts.end > 0


def test_a_peer_that_goes_within_a_head_is_told_in_one_line(good: Path) -> None:
    """
    It is no error of the server: its thread would print one.
    """
    said: list[str] = []
    with SegmentServer(good, "127.0.0.1", say=said.append) as served:
        place = parse_address(served.address)
        with socket.create_connection(place, 20) as stranger:
            stranger.sendall(b"\0\0")
            stranger.shutdown(socket.SHUT_WR)
            assert b"" == stranger.recv(10)
        (line,) = said
    assert "127.0.0.1 ended: 2 bytes, and no frame" in line


def test_connections_that_send_nothing_stop_no_repair(served: SegmentServer) -> None:
    """
    Of too many the oldest one is closed for the next.
    """
    place = parse_address(served.address)
    silent = [socket.create_connection(place) for _ in range(40)]
    with peer_of(served.address) as peer:
        assert peer.block(0, 0)
    for one in silent:
        one.close()


def test_only_a_peer_with_a_certificate_is_served(good: Path, tmp_path: Path) -> None:
    """
    And it serves no one who does not know its authority.
    """
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    certificate, key = authority.issue("server")
    config = TlsConfig(
        TlsMode.ENFORCING, certificate, key, authority.path, needs_client=True
    )
    said: list[str] = []
    with SegmentServer(
        good, "127.0.0.1", tls=ServerTls(config), say=said.append
    ) as server:
        own, own_key = authority.issue("client")
        good_tls = ClientTls(TlsConfig(TlsMode.DISABLED, own, own_key, authority.path))
        with peer_of(server.address, good_tls) as peer:
            assert peer.block(0, 0)
        others, others_key = other.issue("client")
        for tls in (
            None,
            ClientTls(TlsConfig(authorities=authority.path)),
            ClientTls(TlsConfig(TlsMode.DISABLED, others, others_key, authority.path)),
            ClientTls(TlsConfig(TlsMode.DISABLED, own, own_key, other.path)),
        ):
            with pytest.raises(PystoreError):
                PeerCopy(server.address, tls)
    assert said


def test_a_name_that_is_neither_store_nor_address_is_an_error(tmp_path: Path) -> None:
    """
    A directory that is there counts as a store.
    """
    with pytest.raises(InvalidError, match="neither the directory of a store nor"):
        open_copies([str(tmp_path / "none")]).__enter__()
    with pytest.raises(PystoreError):
        open_copies([str(tmp_path)]).__enter__()


def test_facts_survive_their_json(good: Path) -> None:
    """
    With identity and epochs; other values are refused.
    """
    facts = StoreCopy(good).facts
    answer = decode_message(encode_message(facts_json(facts))[4:])
    assert facts == facts_of(answer)
    for change in (
        {"version": 2},
        {"settledEnd": facts.end + 1},
        {"segmentSize": 0},
        {"epochs": [[1]]},
        {"beginOffset": "0"},
    ):
        with pytest.raises(RemoteViolation):
            facts_of({**answer, **change})


def test_a_source_may_be_written_meanwhile(good: Path, bad: Path) -> None:
    """
    Only its settled segments are served.
    """
    with Store(good) as store, SegmentServer(good, "127.0.0.1") as server:
        store.log.append(Message("t0", b"x" * 5000))
        with open_copies([server.address]) as copies:
            done = mend_closed(bad, copies, bad.parent / "kept")
        assert [] == done.unmended
