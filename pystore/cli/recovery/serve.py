"""
``pystore recovery serve``: the segments of a store for repairs on other machines.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from pystore.cli.lib.exit_codes import UNFINISHED
from pystore.cli.lib.exposure import Listener, exposed_lines, insecure_option
from pystore.cli.lib.group import StorePath
from pystore.cli.lib.log_lines import LogLines, line_format, log_format_option
from pystore.cli.lib.service import run_until_signal
from pystore.cli.lib.sizes import parse_size
from pystore.events.line_format import LineFormat
from pystore.fs.layout import require_store
from pystore.net.address import parse_listen_address
from pystore.net.tls import ServerTls, TlsMode, tls_config
from pystore.rates.shared_rate import SharedRate
from pystore.segments.peer_server import SegmentServer

__all__ = ["serve"]

_EXAMPLE = """\b
Example: serve a store to this machine, and repair another one from it
  pystore recovery serve /copy/store --listen 127.0.0.1:10920
  pystore recovery mend /data/store --from 127.0.0.1:10920
"""


@click.command(short_help="Serve segments to repairs.", epilog=_EXAMPLE)
@click.argument("store", type=StorePath())
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen; port 0 is any free one.",
)
@click.option("--tls-certificate", "certificate", default="", metavar="FILE")
@click.option("--tls-key", "key", default="", metavar="FILE")
@click.option(
    "--tls-authorities",
    "authorities",
    default="",
    metavar="FILE",
    help="Speak TLS with these three, and serve only peers whose certificate these "
    "authorities signed.",
)
@click.option(
    "--rate",
    callback=parse_size,
    metavar="SIZE",
    help="Read at most so many bytes a second, such as 50m, for all peers together; by "
    "default there is no limit.",
)
@insecure_option
@log_format_option
def serve(
    store: Path,
    *,
    listen: str,
    certificate: str,
    key: str,
    authorities: str,
    rate: int | None,
    insecure: bool,
    **options: str | None,
) -> int:
    """
    Serve the settled segments of STORE, read only, until stopped; STORE may be that of
    a stopped broker of RocketMQ.

    Where other machines reach it, a certificate, its key and authorities are needed:
    who has a certificate of these may read the whole log.
    """
    require_store(store)
    host, port = parse_listen_address(listen)
    names = ("--tls-certificate", "--tls-key", "--tls-authorities")
    given = (certificate, key, authorities)
    needs = tuple(one for one, text in zip(names, given, strict=True) if not text)
    if needs and any(given):
        raise click.UsageError(f"give {' and '.join(needs)}, too")
    exposed = exposed_lines([Listener("serve", host, port, needs)], insecure=insecure)
    tls = None
    if not needs:
        mode = TlsMode.ENFORCING.value
        config = tls_config(mode, certificate, key, authorities, needs_client=True)
        tls = ServerTls(config)
    with LogLines(line_format(options["logFormat"] or LineFormat.TEXT.value)) as lines:
        for line in exposed:
            lines.say(line)
        shared = SharedRate(rate or 0)
        with SegmentServer(
            store, host, port, tls=tls, say=lines.say, rate=shared
        ) as server:
            click.echo(f"pystore recovery serves {store} on {server.address}")
            code = run_until_signal(_wait())
    return UNFINISHED if code is None else code


async def _wait() -> None:
    await asyncio.Event().wait()
