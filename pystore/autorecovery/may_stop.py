"""
Whether a host may be stopped now. Pure.

Source: AR-R25; docs/autorecovery.md, *Decommission*.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystore.autorecovery.host_peers import RecoveryHost
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.set_copies import is_good
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.errors import InvalidError

__all__ = ["may_stop"]


def may_stop(
    view: ClusterView,
    hosts: Mapping[str, RecoveryHost],
    host: str,
    *,
    min_in_sync: int = 1,
) -> tuple[bool, dict[tuple[str, str], str]]:
    """
    Returns whether a host may be stopped without a set that loses its last good copy,
    or has fewer members in sync than writes with `all` need.

    A replica of the host that is not in sync, or not alive, is no reason: its set would
    not change. A set whose record is unreadable is one, as nothing is known of it.

    Args:
        view: all sets.
        hosts: all hosts, by name.
        host: the name of the host.
        min_in_sync: how many members in sync, the master among them, a set needs.

    Returns:
        Whether it may, and why not, by set.

    Raises:
        InvalidError: there is no such host.
    """
    described = hosts.get(host)
    if described is None:
        raise InvalidError(f"there is no host {host!r}")
    reasons: dict[tuple[str, str], str] = {}
    for one in described.replicas:
        names = (one.cluster, one.set_name)
        if names in view.damaged:
            reasons[names] = "its record is unreadable"
            continue
        found = view.sets.get(names)
        why = "" if found is None else _reason(found, one.broker_id, min_in_sync)
        if why:
            reasons[names] = why
    return not reasons, reasons


def _reason(described: SetDescription, broker_id: int | None, least: int) -> str:
    """
    Returns why a set cannot do without a broker; empty: it can.
    """
    in_sync = {
        it.broker_id for it in described.brokers if it.is_alive and it.is_in_sync
    }
    if broker_id not in in_sync:
        return ""
    good = [it for it in described.brokers if is_good(it)]
    others = [it for it in good if it.broker_id != broker_id]
    is_one = any(it.broker_id == broker_id for it in good)
    if is_one and not others:
        return f"broker {broker_id} has the only good copy"
    rest = len(in_sync) - 1
    if rest < least:
        return f"{rest} of its members would be in sync, {least} are needed"
    return ""
