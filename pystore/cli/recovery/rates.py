"""
``pystore recovery rates``: how fast repairs and catch-up on the host of a broker may
be, shown or changed while it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pystore.broker.control_client import ControlClient
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json, pairs_text
from pystore.cli.lib.sizes import parse_size

__all__ = ["rates"]

_NONE = "none"

_EXAMPLE = """\b
Example: at most 50 MiB a second come in, less while appends take over 20 ms
  pystore recovery rates --socket /data/broker-a.sock --in 50m --latency 20
"""


def _limit(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    return 0 if value == _NONE else parse_size(context, parameter, value)


@click.command(short_help="Show or change rates of repair.", epilog=_EXAMPLE)
@click.option(
    "--socket",
    required=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The control socket of the broker.",
)
@click.option(
    "--in",
    "in_bytes",
    callback=_limit,
    metavar="SIZE",
    help="At most so many bytes a second are written here by repairs, and by slaves "
    "here that catch up; none: no limit.",
)
@click.option(
    "--out",
    "out_bytes",
    callback=_limit,
    metavar="SIZE",
    help="At most so many bytes a second are read here for repairs, checks, and slaves "
    "elsewhere that catch up; none: no limit.",
)
@click.option(
    "--latency",
    type=click.IntRange(0, 60_000),
    metavar="MS",
    help="Move less while the 99th percentile of appends is above MS; 0: never.",
)
@json_option
def rates(
    *,
    socket: Path,
    in_bytes: int | None,
    out_bytes: int | None,
    latency: int | None,
    as_json: bool,
) -> int:
    """
    Show how fast repairs and catch-up on the host of a broker may be, or change it
    from now on.

    The host forgets what was changed when it ends: its configuration counts then.
    """
    given = {
        "repairBytesPerSecond": in_bytes,
        "serveBytesPerSecond": out_bytes,
        "repairLatencyMs": latency,
    }
    with ControlClient(socket) as client:
        found = client.rates(
            **{name: one for name, one in given.items() if one is not None}
        )
    if as_json:
        echo_json({"socket": str(socket), **found})
    else:
        click.echo(pairs_text(_pairs(found)))
    return DONE


def _pairs(found: dict[str, Any]) -> list[tuple[str, str]]:
    p99_ms, limit_ms = found["appendP99Ms"], found["repairLatencyMs"]
    # A broker of an earlier version does not tell it.
    told = found.get("toldServeBytesPerSecond", 0)
    took = "not measured" if p99_ms is None else f"{p99_ms:.1f} ms"
    return [
        ("in", _rate(found["inBytesPerSecond"], found["repairBytesPerSecond"])),
        ("out", _rate(found["outBytesPerSecond"], found["serveBytesPerSecond"])),
        ("served at most", _rate(told, told)),
        ("moved in", f"{found['inBytes']:,} bytes"),
        ("moved out", f"{found['outBytes']:,} bytes"),
        ("yields", f"above {limit_ms} ms" if limit_ms else "never"),
        ("appends, p99", took),
    ]


def _rate(now: int, limit: int) -> str:
    if not now:
        return "no limit"
    text = f"{now:,} bytes a second"
    return text if now == limit else f"{text}, as appends are slow"
