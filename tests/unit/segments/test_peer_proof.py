"""
A broker serves its segments to brokers of its set, and reads those of such only, where
proofs are required.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from lib.certificates import Authority
from lib.store.pairs import fill, seal

from pystore.errors import PystoreError, RemoteViolation, UnavailableError
from pystore.ha.wire.proof import OPEN, LinkGuard, LinkSecrets
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls, ServerTls, TlsConfig, TlsMode
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_proof import (
    SegmentSide,
    challenge_of,
    is_proof,
    segment_proof,
)
from pystore.segments.peer_protocol import decode_message, encode_message
from pystore.segments.peer_server import SegmentServer

SECRET = b"s" * 32
STRANGER = LinkGuard(is_required=True)


def guard(
    secret: bytes = SECRET, epoch: int = 4, *, required: bool = True
) -> LinkGuard:
    """
    What a broker of the set knows.
    """
    return LinkGuard(required, LinkSecrets(epoch, of_set=secret))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store.
    """
    root = tmp_path_factory.mktemp("root") / "store"
    fill(root, 200)
    seal(root)
    return root


@contextmanager
def served(
    root: Path, own: LinkGuard, tls: ServerTls | None = None
) -> Iterator[SegmentServer]:
    """
    A store that a broker serves.
    """
    with SegmentServer(root, "127.0.0.1", guard=lambda: own, tls=tls) as server:
        yield server


def reads(address: str, own: LinkGuard, tls: ClientTls | None = None) -> bool:
    """
    Whether a broker reads segments there.
    """
    with closing(PeerCopy(address, tls, lambda: own)) as peer:
        return len(peer.block(0, 0)) > 0


def test_brokers_of_one_set_prove_themselves(root: Path) -> None:
    """
    Also while proofs are not required yet; then a side may lack its secret.
    """
    with served(root, guard()) as server:
        assert reads(server.address, guard())
    with served(root, guard(required=False)) as server:
        assert reads(server.address, guard(required=False))
        assert reads(server.address, OPEN)
    with served(root, OPEN) as server:
        assert reads(server.address, guard(required=False))


@pytest.mark.parametrize(
    "other",
    [
        OPEN,
        STRANGER,
        guard(b"x" * 32),
        guard(epoch=5),
        guard(b"x" * 32, required=False),
    ],
)
def test_who_proves_nothing_is_not_served(root: Path, other: LinkGuard) -> None:
    """
    Nor who has the secret of another set, or of another mastership.
    """
    with served(root, guard()) as server, pytest.raises(UnavailableError) as caught:
        reads(server.address, other)
    assert "offset" not in str(caught.value)


@pytest.mark.parametrize("other", [OPEN, STRANGER, guard(b"x" * 32), guard(epoch=5)])
def test_a_server_that_proves_nothing_is_not_read(root: Path, other: LinkGuard) -> None:
    """
    Its segments could be made up: they are whole in themselves.
    """
    with (
        served(root, other) as server,
        pytest.raises(UnavailableError, match=r"did not prove|is refused"),
    ):
        reads(server.address, guard())


def test_a_connection_that_was_taken_without_a_proof_is_closed_when_one_is_required(
    root: Path,
) -> None:
    """
    The controllers began to enforce meanwhile.
    """
    own = guard(required=False)
    with (
        SegmentServer(root, "127.0.0.1", guard=lambda: own) as server,
        closing(PeerCopy(server.address)) as peer,
    ):
        assert peer.block(0, 0)
        own = guard()
        with pytest.raises(UnavailableError, match="the request is refused"):
            peer.block(0, 0)


def test_a_proof_is_for_one_connection_and_one_side(root: Path) -> None:
    """
    What was captured, or what the server sent, proves nothing.
    """

    def asked(channel: socket.socket, **request: object) -> dict[str, object]:
        channel.sendall(encode_message(request))
        size = int.from_bytes(channel.recv(4), "big")
        return decode_message(channel.recv(size, socket.MSG_WAITALL))

    captured = ""
    with served(root, guard()) as server:
        for kind in ("right", "captured", "of the server", "right"):
            place = parse_address(server.address)
            with socket.create_connection(place, 5) as one:
                mine = "0" * 32
                answer = asked(one, request="challenge", epoch=4, challenge=mine)
                names = 4, mine, str(answer["challenge"])
                right = segment_proof(SECRET, SegmentSide.READER, *names)
                given = {"right": right, "captured": captured}
                proof = given.get(kind, str(answer["proof"]))
                refused = asked(one, request="prove", proof=proof).get("error")
                assert (kind != "right") is (refused == "the request is refused")
                captured = right


def test_a_certificate_of_our_authority_is_proof_enough(
    root: Path, tmp_path: Path
) -> None:
    """
    An operator's repair has no secret of the set. A certificate of the server alone is
    none for the reader.
    """
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    client, client_key = authority.issue("client")
    shows = TlsConfig(TlsMode.DISABLED, client, client_key, authority.path)
    for needs_client in (True, False):
        config = TlsConfig(
            TlsMode.ENFORCING,
            certificate,
            key,
            authority.path,
            needs_client=needs_client,
        )
        with served(root, guard(), ServerTls(config)) as server:
            if needs_client:
                assert reads(server.address, OPEN, ClientTls(shows))
                continue
            assert reads(server.address, guard(), ClientTls(shows))
            with pytest.raises(PystoreError):
                reads(server.address, OPEN, ClientTls(shows))


def test_a_permissive_port_takes_both(root: Path, tmp_path: Path) -> None:
    """
    While TLS is switched on in a running set.
    """
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    config = TlsConfig(TlsMode.PERMISSIVE, certificate, key, authority.path)
    with served(root, OPEN, ServerTls(config)) as server:
        assert reads(server.address, OPEN)
        assert reads(
            server.address, OPEN, ClientTls(TlsConfig(authorities=authority.path))
        )


def test_a_proof_is_a_text_of_its_side() -> None:
    """
    Other values are none.
    """
    names = 4, "0" * 32, "1" * 32
    right = segment_proof(SECRET, SegmentSide.READER, *names)
    assert is_proof(right, right)
    for wrong in (None, 1, "", "ä", segment_proof(SECRET, SegmentSide.SERVER, *names)):
        assert not is_proof(right, wrong)
    assert "0" * 32 == challenge_of("0" * 32)
    for wrong in (None, 1, "", "0" * 31, "ä" * 32):
        with pytest.raises(RemoteViolation):
            challenge_of(wrong)
