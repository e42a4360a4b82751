"""
``pystore recovery``: lost and damaged copies are found and repaired.
"""

from __future__ import annotations

import click

from pystore.cli.lib.group import CommandGroup

__all__ = ["recovery"]

_HERE = "pystore.cli.recovery"

_PLACES = {
    "auditor": f"{_HERE}.switches:auditor",
    "daemon": f"{_HERE}.daemon:daemon",
    "dead": f"{_HERE}.segments:dead",
    "decommission": f"{_HERE}.hosts:decommission",
    "delay": f"{_HERE}.switches:delay",
    "disable": f"{_HERE}.switches:disable",
    "enable": f"{_HERE}.switches:enable",
    "explain": f"{_HERE}.explain:explain_command",
    "first": f"{_HERE}.segments:first",
    "forget": f"{_HERE}.segments:forget",
    "kick": f"{_HERE}.switches:kick",
    "list": f"{_HERE}.segments:list_segments",
    "maintenance": f"{_HERE}.pauses:maintenance",
    "may-stop": f"{_HERE}.hosts:may_stop_command",
    "mend": f"{_HERE}.mend:mend",
    "pause": f"{_HERE}.pauses:pause_command",
    "rates": f"{_HERE}.rates:rates",
    "replace": f"{_HERE}.hosts:replace_command",
    "resume": f"{_HERE}.pauses:resume",
    "retry": f"{_HERE}.segments:retry",
    "serve": f"{_HERE}.serve:serve",
    "settings": f"{_HERE}.switches:settings",
    "show": f"{_HERE}.segments:show",
    "status": f"{_HERE}.status:status",
}

_BOOKKEEPER = {
    "decommissionbookie": "decommission",
    "listunderreplicated": "list",
    "lostbookierecoverydelay": "delay",
    "triggeraudit": "kick",
    "whoisauditor": "auditor",
}

_EPILOG = """\b
Example: what is lost or damaged, and who repairs it?
  pystore recovery status --records /var/lib/pystore-controller

BookKeeper's names work, too: decommissionbookie, listunderreplicated,
lostbookierecoverydelay, triggeraudit, whoisauditor.
"""


@click.group(
    cls=CommandGroup,
    places=_PLACES,
    aliases=_BOOKKEEPER,
    short_help="Find and repair lost and damaged copies.",
    epilog=_EPILOG,
)
def recovery() -> None:
    """
    Repair copies of a log from other copies of it (mend, serve), and look after
    AutoRecovery, which finds and repairs lost and damaged copies by itself. SEGMENT is
    CLUSTER/SET/OFFSET, as `list` prints it.
    """
