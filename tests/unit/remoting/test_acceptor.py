"""
TLS and plain bytes on one port, with real certificates and sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lib.certificates import Authority
from lib.remoting.virtual_time_loop import move, run, settle, stop_clock, until

from pystore.net.tls import ClientTls, ServerTls, TlsConfig, TlsMode
from pystore.remoting.client import RemotingClient
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.errors import NotSent
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer

REQUEST = RemotingCommand(7, body=bytes(300_000))


class Listening:
    """
    A server that echoes bodies.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.address = ""

    def echo(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Returns the body.
        """
        return Reply(body=request.body)


@asynccontextmanager
async def listening(tls: ServerTls) -> AsyncIterator[Listening]:
    """
    A server for as long as a test lasts.
    """
    made = Listening()
    async with RemotingServer({7: made.echo}, say=made.said.append, tls=tls) as server:
        host, port = await server.start()
        made.address = f"{host}:{port}"
        yield made


async def echoed(address: str, tls: ClientTls | None) -> bool:
    """
    Whether a client gets its body back, twice.
    """
    async with RemotingClient(tls=tls) as client:
        for _ in range(2):
            try:
                answer = await client.call(address, REQUEST)
            except NotSent:
                return False
            assert REQUEST.body == answer.body
    return True


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """
    Signs the certificates of a test.
    """
    return Authority(tmp_path)


@pytest.mark.parametrize(
    ("mode", "takes_tls", "takes_plain"),
    [
        (TlsMode.DISABLED, False, True),
        (TlsMode.PERMISSIVE, True, True),
        (TlsMode.ENFORCING, True, False),
    ],
)
def test_the_mode_says_which_peers_are_taken(
    authority: Authority, mode: TlsMode, takes_tls: bool, takes_plain: bool
) -> None:
    """
    On one port; a refused peer is named.
    """
    certificate, key = authority.issue("server")
    tls = ServerTls(TlsConfig(mode, certificate, key))
    client = ClientTls(TlsConfig(authorities=authority.path))

    async def main() -> None:
        async with listening(tls) as at:
            assert takes_tls is await echoed(at.address, client)
            if takes_plain:
                assert await echoed(at.address, None)
            else:
                reader, writer = await asyncio.open_connection(*_place(at.address))
                writer.write(b"\0\0\0\4")
                with contextlib.suppress(ConnectionResetError):
                    # The byte that was looked at is still unread.
                    assert b"" == await reader.read(1)
                writer.close()
            expected = not (takes_tls and takes_plain)
            assert expected == any("127.0.0.1 refused: " in one for one in at.said)

    run(main())


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def test_a_client_refuses_a_server_of_another_name_or_authority(
    authority: Authority, tmp_path: Path
) -> None:
    """
    Expired, too; each with one line that says why.
    """
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    cases = {
        "IP address mismatch": authority.issue("name", "10.1.2.3"),
        "certificate has expired": authority.issue("expired", days=-1),
        "unable to get local issuer certificate": other.issue("stranger"),
    }
    client = ClientTls(TlsConfig(authorities=authority.path))

    async def main() -> None:
        for reason, (certificate, key) in cases.items():
            tls = ServerTls(TlsConfig(TlsMode.ENFORCING, certificate, key))
            async with listening(tls) as at, RemotingClient(tls=client) as one:
                with pytest.raises(
                    NotSent, match="its certificate is refused"
                ) as found:
                    await one.call(at.address, REQUEST)
                assert reason in str(found.value)

    run(main())


def test_a_server_that_needs_certificates_takes_clients_with_one_only(
    authority: Authority,
) -> None:
    """
    Of its own authorities.
    """
    certificate, key = authority.issue("server")
    own, own_key = authority.issue("client")
    config = TlsConfig(
        TlsMode.ENFORCING, certificate, key, authority.path, needs_client=True
    )
    bare = ClientTls(TlsConfig(authorities=authority.path))
    known = ClientTls(
        TlsConfig(certificate=own, key=own_key, authorities=authority.path)
    )

    async def main() -> None:
        async with listening(ServerTls(config)) as at:
            assert await echoed(at.address, known)
            async with RemotingClient(tls=bare) as client:
                # With TLS 1.3 the client learns it with its first answer.
                with pytest.raises(Exception, match=r".") as found:
                    await client.call(at.address, REQUEST, 2_000)
            assert "closed the connection" in str(found.value) or "TLS" in str(
                found.value
            )

    run(main())


def test_replaced_certificates_are_taken_without_a_restart(
    authority: Authority,
) -> None:
    """
    Once both files fit; half replaced ones change nothing.
    """
    said: list[str] = []
    certificate, key = authority.issue("server")
    tls = ServerTls(TlsConfig(TlsMode.ENFORCING, certificate, key), said.append)
    new, new_key = authority.issue("next")
    client = ClientTls(TlsConfig(authorities=authority.path))

    async def serial(address: str) -> int:
        context = client.context()
        host, port = _place(address)
        _, writer = await asyncio.open_connection(host, port, ssl=context)
        found = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        writer.close()
        return int(found, 16)

    async def main() -> None:
        async with listening(tls) as at:
            first = await serial(at.address)
            certificate.write_bytes(new.read_bytes())
            assert first == await serial(at.address)
            assert first == await serial(at.address)
            (line,) = said
            assert "the former certificates stay in use" in line
            key.write_bytes(new_key.read_bytes())
            assert first != await serial(at.address)

    run(main())


def test_a_certificate_that_ends_under_way_ends_no_open_connection(
    authority: Authority,
) -> None:
    """
    New ones are refused by the client, with the reason.
    """
    certificate, key = authority.issue("server")
    tls = ServerTls(TlsConfig(TlsMode.ENFORCING, certificate, key))
    client_tls = ClientTls(TlsConfig(authorities=authority.path))

    async def main() -> None:
        async with (
            listening(tls) as at,
            RemotingClient(tls=client_tls) as before,
            RemotingClient(tls=client_tls) as later,
        ):
            assert REQUEST.body == (await before.call(at.address, REQUEST)).body
            ended, ended_key = authority.issue("ended", days=-1)
            key.write_bytes(ended_key.read_bytes())
            certificate.write_bytes(ended.read_bytes())
            with pytest.raises(NotSent, match="certificate has expired"):
                await later.call(at.address, REQUEST)
            await until(lambda: at.said)
            assert "connection of 127.0.0.1 refused: " in at.said[0]
            assert not at.said[0].endswith("refused: ")
            assert REQUEST.body == (await before.call(at.address, REQUEST)).body

    run(main())


def test_peers_that_send_nothing_or_half_a_handshake_are_closed(
    authority: Authority,
) -> None:
    """
    After a time; others are served meanwhile.
    """
    certificate, key = authority.issue("server")
    tls = ServerTls(TlsConfig(TlsMode.PERMISSIVE, certificate, key))
    client = ClientTls(TlsConfig(authorities=authority.path))

    async def main() -> None:
        async with listening(tls) as at:
            silent = [socket.create_connection(_place(at.address)) for _ in range(40)]
            for number, one in enumerate(silent):
                one.settimeout(0)
                one.send(b"\x16\x03\x01"[: number % 4])
            assert await echoed(at.address, client)
            assert await echoed(at.address, None)
            await asyncio.sleep(0.05)
            move(6_000)
            assert await echoed(at.address, client)
            await until(lambda: all(_is_closed(one) for one in silent))
            for one in silent:
                one.close()

    run(main())


def test_too_many_handshakes_of_one_address_cost_another_address_none(
    authority: Authority,
) -> None:
    """
    A peer of the other address takes the place of the oldest one.
    """
    certificate, key = authority.issue("server")
    tls = ServerTls(TlsConfig(TlsMode.ENFORCING, certificate, key))
    context = ClientTls(TlsConfig(authorities=authority.path)).context()

    async def main() -> None:
        async with listening(tls) as at:
            stop_clock()
            many = [_half_handshake(at.address, "127.0.0.1") for _ in range(40)]
            await settle()
            for number in range(1, 4):
                _, writer = await asyncio.open_connection(
                    *_place(at.address), ssl=context, local_addr=("127.0.0.2", 0)
                )
                await until(lambda: all(_is_closed(one) for one in many[:number]))  # noqa: B023
                writer.close()
            assert not any(_is_closed(one) for one in many[3:])
            for one in many:
                one.close()

    run(main())


def test_slow_handshakes_make_place_for_others_of_their_address(
    authority: Authority,
) -> None:
    """
    And many peers may come at once: those without a place wait.
    """
    certificate, key = authority.issue("server")
    tls = ServerTls(TlsConfig(TlsMode.ENFORCING, certificate, key))
    context = ClientTls(TlsConfig(authorities=authority.path)).context()

    async def main() -> None:
        async with listening(tls) as at:

            async def connect() -> None:
                _, writer = await asyncio.open_connection(
                    *_place(at.address), ssl=context
                )
                writer.close()

            await asyncio.gather(*(connect() for _ in range(80)))
            stop_clock()
            many = [_half_handshake(at.address, "127.0.0.1") for _ in range(32)]
            await settle()
            late = asyncio.create_task(connect())
            await settle()
            assert not late.done()
            move(1_000)
            await late
            assert [True] == [_is_closed(one) for one in many if _is_closed(one)]
            assert at.said == [
                "connection of 127.0.0.1 refused: too many TLS handshakes at once"
            ]
            for one in many:
                one.close()

    run(main())


def _half_handshake(address: str, source: str) -> socket.socket:
    one = socket.create_connection(_place(address), source_address=(source, 0))
    one.settimeout(0)
    one.send(b"\x16\x03\x01")
    return one


def _is_closed(one: socket.socket) -> bool:
    try:
        # An alert of TLS may come before the end.
        while one.recv(100):
            pass
    except BlockingIOError:
        return False
    except OSError:
        # A reset.
        return True
    return True


def test_only_modern_versions_are_spoken(authority: Authority) -> None:
    """
    TLS 1.2 and newer.
    """
    certificate, key = authority.issue("server")
    for context in (
        ServerTls(TlsConfig(TlsMode.ENFORCING, certificate, key)).context(),
        ClientTls(TlsConfig()).context(),
    ):
        assert ssl.TLSVersion.TLSv1_2 <= context.minimum_version
