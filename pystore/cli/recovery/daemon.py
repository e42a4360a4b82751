"""
``pystore recovery daemon``: a candidate for the Auditor, and a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pystore.access.credentials import CredentialsFile
from pystore.access.signer import RequestSigner
from pystore.cli.admin.client import addresses_option
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.log_lines import LogLines, line_format, log_format_option
from pystore.cli.lib.peer_tls import peer_tls, peer_tls_options
from pystore.cli.lib.recovery_works import process_name, recovery_works, run_works
from pystore.cli.lib.service import allow_files, run_until_signal
from pystore.cli.recovery.records import records_opener, records_options
from pystore.events.line_format import LineFormat

__all__ = ["daemon"]

_F = TypeVar("_F", bound=Callable[..., Any])

_EXAMPLE = """\b
Example: find and repair damaged copies of all sets of these controllers
  pystore recovery daemon -a 127.0.0.1:9878 --records /var/lib/pystore-controller
"""

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers, which tell who is a member and who is alive.",
)


def _options(command: _F) -> _F:
    """
    Adds the options that say what the process does.
    """
    for option in (
        click.option(
            "--slots",
            type=click.IntRange(0, 64),
            metavar="N",
            help="Segments that it repairs at once; by default as the settings say; "
            "0: none, it only audits.",
        ),
        click.option(
            "--no-auditor", is_flag=True, help="Repair only, and do not audit."
        ),
        click.option(
            "--credentials",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar="PYSTORE_CREDENTIALS",
            metavar="FILE",
            help="Sign requests as this user, who needs the role operator.",
        ),
    ):
        command = option(command)
    return command


@click.command(short_help="Find and repair damaged copies.", epilog=_EXAMPLE)
@_controllers
@records_options
@_options
@peer_tls_options
@log_format_option
def daemon(
    *,
    controllers: tuple[str, ...],
    records: str | None,
    config: Path | None,
    slots: int | None,
    no_auditor: bool,
    credentials: Path | None,
    authorities: str,
    certificate: str,
    key: str,
    **options: str | None,
) -> int:
    """
    Be a candidate for the Auditor, which marks segments that lack a good copy, and
    repair marked segments, until stopped. Run it on several machines: one audits, all
    repair.

    It needs the record store of the controllers. Losing it stops recovery, and no
    broker.
    """
    open_store = records_opener(records, config)
    signs = None
    if credentials is not None:
        signs = RequestSigner(CredentialsFile(credentials).now).sign
    tls = peer_tls(authorities, certificate, key)
    allow_files()
    with (
        LogLines(line_format(options["logFormat"] or LineFormat.TEXT.value)) as lines,
        recovery_works(
            open_store,
            controllers,
            signs=signs,
            tls=tls,
            say=lines.say,
            slots=slots,
            is_candidate=not no_auditor,
        ) as works,
    ):
        click.echo(f"pystore recovery runs as {process_name()}")
        code = run_until_signal(run_works(works))
    return DONE if code is None else code
