"""
``pystore broker``: runs broker nodes until it is stopped, and asks running ones.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from pystore.broker.access_settings import AccessSettings
from pystore.broker.control_client import ControlClient
from pystore.broker.control_protocol import TIMEOUT_MS_MAX
from pystore.broker.host import BrokerHost
from pystore.broker.node_status import FAILED
from pystore.broker.settings import (
    HostConfig,
    NodeSettings,
    host_of_properties,
    host_of_toml,
)
from pystore.cli.append import AckCount
from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED, error_line
from pystore.cli.lib.exposure import Listener, exposed_lines, insecure_option
from pystore.cli.lib.group import CommandGroup, json_option
from pystore.cli.lib.interrupt import interruptible
from pystore.cli.lib.log_lines import LogLines, line_format, log_format_option
from pystore.cli.lib.output import echo_json, table_text
from pystore.cli.lib.recovery_works import (
    RecoveryWork,
    process_name,
    recovery_works,
    run_works,
)
from pystore.cli.lib.service import allow_files, run_until_signal
from pystore.cli.recovery.records import late_records_opener
from pystore.errors import InvalidError, PystoreError
from pystore.fs.toml_file import read_toml_text
from pystore.ha.insync.ack import Ack
from pystore.message.lines import Strings, read_lines
from pystore.message.message import Message
from pystore.net.address import parse_address
from pystore.net.tls import TlsMode
from pystore.rocketmq.properties_file import read_properties_file
from pystore.text import count_text

__all__ = ["broker"]

_BATCH_BYTES, _BATCH_LINES = 128 << 10, 256
"""Of one append; the records of both together fit into a segment of 256 KiB."""

_EXAMPLE = """\b
Example: run the nodes of a file
  pystore broker -c broker.toml
Example: is the node master, and who is in sync?
  pystore broker status --socket /data/broker-a.sock
"""


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    short_help="Run broker nodes, and ask them.",
    epilog=_EXAMPLE,
)
@click.option(
    "-c",
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML, or RocketMQ's broker.conf.",
)
@insecure_option
@log_format_option
@click.pass_context
def broker(
    context: click.Context,
    /,
    config: Path | None,
    *,
    insecure: bool,
    **options: str | None,
) -> int:
    """
    Run the broker nodes of a configuration file: each is a replica of one broker set,
    and master or slave as the controllers decide.

    It runs until stopped; after SIGTERM the exit code is 0. A node that fails is
    reported and closed, the others go on, and the exit code is 3. The other commands
    ask running nodes over their control socket.
    """
    if context.invoked_subcommand is not None:
        if config is not None or options["logFormat"] or insecure:
            raise click.UsageError(
                "-c is for running, as --log-format and --insecure are: leave the "
                "other command out"
            )
        return DONE
    if config is None:
        raise click.UsageError("give -c FILE to run brokers, or a command")
    try:
        host_config = _read_config(config)
    except InvalidError as error:
        # Nothing is open yet.
        raise click.UsageError(str(error)) from error
    exposed = exposed_lines(_listeners(host_config), insecure=insecure)
    allow_files()
    with LogLines(line_format(options["logFormat"] or host_config.log_format)) as lines:
        for line in (*exposed, *host_config.said):
            lines.say(line)
        host = BrokerHost(host_config, lines.say, lines.tell)
        with _recovery(host_config, lines.say) as works:
            code = run_until_signal(_run(host, works))
    return UNFINISHED if code is None or host.has_failed else code


@contextmanager
def _recovery(
    config: HostConfig, say: Callable[[str], object]
) -> Iterator[list[RecoveryWork]]:
    """
    Makes what a host does for AutoRecovery; nothing, if it is not configured.
    """
    settings = config.recovery
    if settings is None:
        yield []
        return
    try:
        open_store = late_records_opener(settings.records, settings.config)
    except InvalidError as error:
        # Nothing is open yet.
        raise click.UsageError(f"[recovery]: {error}") from error
    access = settings.access.opened(say)
    with recovery_works(
        open_store,
        settings.controllers,
        signs=access.signs,
        tls=access.client_tls,
        say=say,
        slots=settings.slots,
        is_candidate=settings.is_candidate,
    ) as works:
        say(f"recovery runs as {process_name()}")
        yield works


async def _run(host: BrokerHost, works: list[RecoveryWork]) -> None:
    """
    Serves, and repairs beside it: whatever becomes of the recovery, the brokers go on,
    and their end waits for no repair.
    """
    beside = asyncio.create_task(run_works(works)) if works else None
    try:
        await host.run(_ready, _host_ready)
    finally:
        if beside is not None:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)


def _read_config(path: Path) -> HostConfig:
    if path.suffix == ".toml":
        return host_of_toml(read_toml_text(path), str(path))
    return host_of_properties(read_properties_file(path), str(path))


def _listeners(host: HostConfig) -> Iterator[Listener]:
    for one in host.nodes:
        yield _listener(f"broker {one.name}", one.config.address, one.access)
    if host.port is not None:
        # Nodes that are added later have its access.
        yield _listener("the host", host.port.address, host.port.access)


def _listener(name: str, address: str, access: AccessSettings) -> Listener:
    host, port = parse_address(address)
    needs = []
    if access.credentials is None:
        needs.append("credentialsFile")
    if access.tls.mode is TlsMode.DISABLED:
        needs.append("tlsMode")
    return Listener(name, host, port, tuple(needs))


def _ready(node: NodeSettings) -> None:
    _listens(node.name, node.config.address)


def _host_ready(address: str) -> None:
    _listens("host", address)


def _listens(name: str, address: str) -> None:
    # Whatever reads the lines may have gone: serving is more important.
    with suppress(OSError):
        click.echo(f"pystore broker {name} listens on {address}")


_socket = click.option(
    "--socket",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The control socket; by default it is STORE.sock beside the store.",
)
_node = click.option(
    "--node", default="", metavar="NAME", help="A node, if the process has several."
)


@broker.command(
    short_help="Show roles, sets and offsets of nodes.",
    epilog="""\b
Example: the status as JSON
  pystore broker status --socket /data/broker-a.sock --json
""",
)
@_socket
@_node
@json_option
def status(*, path: Path, node: str, as_json: bool) -> int:
    """
    Show role, epoch, SyncStateSet and offsets of the nodes of a running broker.

    The exit code is 1 if a node has failed.
    """
    with ControlClient(path, node) as client:
        nodes = client.status()
    if as_json:
        echo_json({"nodes": nodes})
    else:
        click.echo(_table(nodes))
        for one in nodes:
            if one["problem"]:
                click.echo(f"{one['node']}: {one['problem']}")
    return BAD if any(one["role"] == FAILED for one in nodes) else DONE


def _table(nodes: list[dict[str, Any]]) -> str:
    header = ("node", "id", "role", "epoch", "master", "SyncStateSet", "end", "confirm")
    return table_text(header, (tuple(_row(one)) for one in nodes))


def _row(node: dict[str, Any]) -> Iterator[str]:
    yield node["node"]
    for name in ("brokerId", "role", "masterEpoch", "masterId"):
        yield "-" if node[name] is None else str(node[name])
    yield ", ".join(map(str, node["syncStateSet"])) or "-"
    for name in ("endOffset", "confirmOffset"):
        yield "-" if node[name] is None else count_text(node[name])


@broker.command(
    short_help="Append each line of standard input.",
    epilog="""\b
Example: append a log file; a record counts when the whole SyncStateSet has it
  pystore broker append --socket /data/broker-a.sock --topic logs < access.log
""",
)
@_socket
@_node
@click.option("--topic", required=True, help="The topic of every record.")
@click.option(
    "--queue",
    "queue_id",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="The queue of every record.",
)
@click.option("--keys", default="", metavar="KEYS", help="Keys of every record.")
@click.option("--tags", default="", metavar="TAG", help="The tag of every record.")
@click.option(
    "--ack",
    type=click.Choice([one.value for one in Ack]),
    default=Ack.ALL.value,
    show_default=True,
    help="When a record counts as stored: in the page cache or on the disk of the "
    "master, or of the whole SyncStateSet.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, TIMEOUT_MS_MAX / 1000),
    default=3,
    show_default=True,
    metavar="SECONDS",
    help="How long the ack of some lines may take.",
)
@json_option
def append(
    *,
    path: Path,
    node: str,
    timeout: float,
    as_json: bool,
    **route: Any,  # noqa: ANN401
) -> int:
    """
    Append one record to the master for each line of standard input.

    The body is the line without its newline; lines are sent several at a time. A node
    that is not the master refuses and names the master; the exit code is 3. The last
    line gives the number of acknowledged records.
    """
    _check_route(**route)
    acked = AckCount()
    with ControlClient(path, node) as client, interruptible() as signals:
        chunks = read_lines(lambda size: signals.read(sys.stdin.fileno(), size))
        bodies = (one for lines in chunks for one in _batches(lines))
        try:
            for batch in bodies:
                _append_batch(client, batch, route, int(timeout * 1000), acked)
                if signals.signal_number:
                    break
        except PystoreError as error:
            # No more records can be appended; those appended are still reported.
            acked.error = f"line {acked.records + 1}: {error_line(error)}"
            acked.exit_code = UNFINISHED
        if signals.signal_number and acked.error is None:
            acked.error = "interrupted"
            acked.exit_code = signals.exit_code
    if acked.error is not None:
        click.echo(f"pystore: {acked.error}", err=True)
    if as_json:
        found = acked.as_json(route["topic"], route["queue_id"], route["ack"])
        echo_json({"socket": str(path), **found})
    else:
        where = f"topic {route['topic']}, queue {route['queue_id']}"
        click.echo(acked.text(where), err=acked.exit_code != DONE)
    return acked.exit_code


def _check_route(topic: str, queue_id: int, keys: str, tags: str, ack: str) -> None:  # noqa: ARG001
    try:
        Message(topic, b"", queue_id=queue_id, keys=keys or None, tags=tags or None)
    except InvalidError as error:
        # A value that no record can hold is wrong usage.
        raise click.UsageError(str(error)) from error


def _batches(lines: Strings) -> Iterator[list[bytes]]:
    """
    Yields the lines, as many at a time as fit into the smallest usual segment.
    """
    offsets, content = lines
    batch: list[bytes] = []
    size = 0
    for start, end in pairwise(offsets.tolist()):
        if batch and (len(batch) == _BATCH_LINES or size + end - start > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(content[start:end])
        size += end - start
    if batch:
        yield batch


def _append_batch(
    client: ControlClient,
    bodies: list[bytes],
    route: dict[str, Any],
    timeout_ms: int,
    acked: AckCount,
) -> None:
    answer = client.append(bodies=bodies, timeout_ms=max(1, timeout_ms), **route)
    acked.records += answer["records"]
    acked.body_bytes += sum(map(len, bodies))
    acked.end_offset = answer["endOffset"]
    if acked.first_offset is None:
        acked.first_offset = answer["offset"]


@broker.command(
    short_help="Print confirmed records as JSON.",
    epilog="""\b
Example: the records from offset 1048576 on, with their bodies
  pystore broker read --socket /data/broker-a.sock --from 1048576 --bodies
""",
)
@_socket
@_node
@click.option(
    "--from",
    "offset",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="The offset of a record; by default that of the first one.",
)
@click.option("--topic", help="Read a queue of this topic, in the order of the queue.")
@click.option(
    "--queue", "queue_id", type=int, metavar="N", help="With --topic; default 0."
)
@click.option(
    "--queue-offset",
    type=click.IntRange(0),
    metavar="N",
    help="With --topic: the first record; by default the first one of the queue.",
)
@click.option(
    "--bodies",
    is_flag=True,
    help="Add the body as stored: as 'body' if it is UTF-8, else as 'bodyBase64'.",
)
@click.option(
    "--json", "_as_json", is_flag=True, help="No effect: the output is always JSON."
)
def read(
    *,
    path: Path,
    node: str,
    offset: int | None,
    topic: str | None,
    queue_id: int | None,
    queue_offset: int | None,
    bodies: bool,
    _as_json: bool,
) -> int:
    """
    Print records of a running node, up to its confirm offset, one JSON object per line
    as `pystore dump` does. What is above may still be lost.
    """
    more: dict[str, object] = {"bodies": bodies}
    if topic is not None:
        if offset is not None:
            raise click.UsageError("--from is an offset of the log: leave --topic out")
        more |= {"topic": topic, "queueId": queue_id or 0}
        more |= {} if queue_offset is None else {"queueOffset": queue_offset}
    elif queue_id is not None or queue_offset is not None:
        raise click.UsageError("--queue and --queue-offset need --topic")
    with ControlClient(path, node) as client:
        for record in client.records(offset, **more):
            click.echo(json.dumps(record, ensure_ascii=False))
    return DONE
