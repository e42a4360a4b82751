"""
``pystore recovery status``: what AutoRecovery does, and what stops it.
"""

from __future__ import annotations

from pathlib import Path

import click

from pystore.autorecovery.alarms import alarms_of
from pystore.autorecovery.status_view import read_status
from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import json_option
from pystore.cli.lib.output import echo_json
from pystore.cli.recovery.records import open_records, records_options
from pystore.cli.recovery.status_text import status_row, status_text
from pystore.clocks import wall_ms

__all__ = ["status"]


@click.command(
    short_help="Show the queue, who repairs, and what stops it.",
    epilog="\b\nExample:\n  pystore recovery status --records /data/records\n",
)
@records_options
@json_option
def status(*, records: str | None, config: Path | None, as_json: bool) -> int:
    """
    Print what AutoRecovery does. The first line says what stops it: `disable`, pauses,
    or that there is no Auditor; then alarms, the queue by priority, segments that are
    being repaired and by which worker, dead segments with their evidence, lost
    replicas, and what Auditor and workers wait for. The exit code is 1 if there is an
    alarm.
    """
    with open_records(records, config) as store:
        found = read_status(store, wall_ms())
    alarms = alarms_of(found)
    if as_json:
        echo_json(status_row(found, alarms))
    else:
        click.echo(status_text(found, alarms))
    return BAD if alarms else DONE
