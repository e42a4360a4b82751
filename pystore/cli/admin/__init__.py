"""
``pystore admin``: mqadmin's commands for controllers, and some more.
"""

from __future__ import annotations

from pathlib import Path

import click

from pystore.cli.admin.audit import audit
from pystore.cli.admin.client import connect_with, sign_with
from pystore.cli.admin.controllers import (
    get_controller_config,
    get_controller_metadata,
    transfer_controller,
    update_controller_config,
)
from pystore.cli.admin.describe import describe_broker_set
from pystore.cli.admin.describe_sets import describe_sets
from pystore.cli.admin.epochs import get_broker_epoch
from pystore.cli.admin.events import events
from pystore.cli.admin.hosts import add_broker, describe_hosts, remove_broker
from pystore.cli.admin.policy import (
    change_broker,
    change_elections,
    delete_broker_set,
    readmit_broker,
    set_copies,
)
from pystore.cli.admin.sets import (
    clean_broker_metadata,
    elect_master,
    get_sync_state_set,
)
from pystore.cli.admin.switch import switch_master
from pystore.cli.admin.transfers import export_sets, import_sets, rebuild_set
from pystore.cli.admin.users import user
from pystore.cli.lib.group import CommandGroup
from pystore.net.tls import TlsMode, tls_config

__all__ = ["admin"]

_EXAMPLE = """\b
Example: why is a replica not in sync?
  pystore admin describeBrokerSet -a 127.0.0.1:9878 -bn broker-a
"""


@click.group(
    cls=CommandGroup,
    short_help="Administer controllers and broker sets.",
    epilog=_EXAMPLE,
)
@click.option(
    "--credentials",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="PYSTORE_CREDENTIALS",
    metavar="FILE",
    help="Sign requests as the user of this file, such as RocketMQ's tools.yml.",
)
@click.option(
    "--tls-authorities",
    "authorities",
    type=click.Path(exists=True, dir_okay=False),
    envvar="PYSTORE_TLS_AUTHORITIES",
    metavar="FILE",
    help="Speak TLS, and verify servers with these certificates.",
)
@click.option(
    "--tls-certificate",
    "certificate",
    default="",
    envvar="PYSTORE_TLS_CERTIFICATE",
    metavar="FILE",
    help="Show this certificate to servers that need one.",
)
@click.option(
    "--tls-key",
    "key",
    default="",
    envvar="PYSTORE_TLS_KEY",
    metavar="FILE",
    help="The key of --tls-certificate.",
)
def admin(
    credentials: Path | None, *, authorities: str | None, certificate: str, key: str
) -> None:
    """
    Query and change controllers of pystore or of RocketMQ, with mqadmin's command
    names. RocketMQ's controllers refuse the commands that only pystore has: exit code
    3.
    """
    sign_with(credentials)
    if authorities is None:
        if certificate or key:
            raise click.UsageError("--tls-certificate needs --tls-authorities")
        connect_with(None)
    else:
        mode = TlsMode.DISABLED.value
        connect_with(tls_config(mode, certificate, key, authorities))


for command in (
    get_controller_metadata,
    get_controller_config,
    update_controller_config,
    transfer_controller,
    get_sync_state_set,
    elect_master,
    switch_master,
    clean_broker_metadata,
    get_broker_epoch,
    describe_broker_set,
    describe_sets,
    describe_hosts,
    add_broker,
    remove_broker,
    events,
    change_broker,
    change_elections,
    set_copies,
    readmit_broker,
    delete_broker_set,
    export_sets,
    import_sets,
    rebuild_set,
    user,
    audit,
):
    admin.add_command(command)
