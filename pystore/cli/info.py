"""
``pystore info``: the state of a store, and how its last writer left it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import DONE, UNFINISHED
from pystore.cli.lib.group import json_option, store_argument
from pystore.cli.lib.output import echo_json, pairs_text, verdict_text
from pystore.core.lock import running_writer
from pystore.fs.boot import boot_of
from pystore.fs.layout import ABORT, META_NAME
from pystore.metastore.values import Identity
from pystore.recovery.dry_run import Inspection, inspect
from pystore.recovery.foreign_writer import Found, Import, find
from pystore.rocketmq.abort_file import parse_abort
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.rocketmq.unread import unread_parts
from pystore.store.commit_log import CommitLog
from pystore.text import count_text, size_text

__all__ = ["info", "store_facts"]

_EXAMPLE = """\b
Example: where the log ends, for a script
  pystore info /data/store --json | jq .endOffset
"""


@click.command(short_help="Show what a store is.", epilog=_EXAMPLE)
@store_argument
@json_option
def info(*, store: Path, as_json: bool) -> int:
    """
    Show offsets, segments, epochs and identity of STORE, and how it was closed.

    If a segment is missing, short or unreadable, the state is `ill`, and a line for
    each names what cannot be read. The command changes nothing, and another process may
    write to the store meanwhile. `pystore verify` checks whether the records are whole.

    The exit code is 3 if the system does not open a segment: its bytes, and the end of
    the log, are not known.
    """
    facts = store_facts(store)
    echo_json(facts) if as_json else click.echo(_text(facts))
    is_unknown = any(one["errno"] is not None for one in facts.get("ill", ()))
    return UNFINISHED if is_unknown else DONE


def store_facts(store: Path) -> dict[str, Any]:
    """
    Returns the facts about a store, by their JSON keys.

    Raises:
        PystoreError: not a store, or it cannot be read.
    """
    with CommitLog(store, mode="r") as log:
        ends = log.ends
        segments, ill = log.reader.segments(), log.ill
        facts: dict[str, Any] = {
            "store": str(store),
            "minOffset": ends.min_offset,
            "endOffset": ends.published_end,
            "segmentSize": ends.segment_size,
            "segments": len(segments),
            "activeSegment": max(
                (base for base in segments if base <= ends.published_end), default=None
            ),
        }
    if ill:
        facts["ill"] = [one._asdict() for one in ill]
    if unread := unread_parts(store):
        facts["unread"] = unread
    if (store / META_NAME).is_dir():
        found = inspect(store, with_rocketmq=False, serves_ill=True)
        facts |= _ours(store, found, end=facts["endOffset"] if ill else None)
    else:
        facts |= _rocketmqs(store, facts, find(store))
    if ill:
        facts["state"] = "ill"
    return facts


def _ours(store: Path, found: Inspection, *, end: int | None) -> dict[str, Any]:
    """
    The facts of a store of pystore; *end* is the end of its log, if no opening for
    writing could find one.
    """
    plan, live, boot = found.plan, found.live, boot_of(store)
    is_same_boot = live is not None and live.boot_id == boot.boot_id
    note = parse_abort(found.found.contents[ABORT] or b"")
    is_running = running_writer(store) is not None
    state = _state(found, is_running=is_running)
    facts = {
        "writer": "pystore",
        "state": state,
        "writerPid": note.pid,
        "foreign": list(plan.reasons),
        "sameBoot": is_same_boot,
        "publishedEnd": live.published_end if live and is_same_boot else None,
        "syncedEnd": plan.synced_end,
        "confirmOffset": plan.confirm_offset,
        "cutGeneration": plan.cut.generation,
        "cutIntent": plan.cut.intent,
        "incarnation": found.incarnation.text if found.incarnation else None,
        "identity": _identity(plan.identity),
        "epochs": plan.epochs.pairs(),
        "damageOffset": None if plan.corrupt is None else plan.corrupt.offset,
    }
    if not is_running:
        facts["endOffset"] = plan.end_offset if end is None else end
    return facts


def _state(found: Inspection, *, is_running: bool) -> str:
    if found.plan.reasons:
        return "changed by another program"
    if is_running:
        return "open"
    if found.plan.corrupt is not None:
        return "damaged"
    return "closed" if found.plan.is_clean else "crashed"


def _rocketmqs(store: Path, facts: dict[str, Any], found: Found) -> dict[str, Any]:
    read = found.read()
    note = parse_abort(found.contents[ABORT] or b"")
    times = read.times
    left, running = "crashed" if found.is_abort else "closed", running_writer(store)
    return {
        "writer": "RocketMQ",
        "state": left if running is None else "open",
        # The file `abort` of RocketMQ 4 is empty, and a process of another container
        # has no id here.
        "writerPid": running if running and running > 0 else note.pid,
        "confirmOffset": None if times is None else times.confirm_offset,
        "physicMsgTimestamp": None if times is None else times.physic_ms,
        "logicsMsgTimestamp": None if times is None else times.logics_ms,
        "indexMsgTimestamp": None if times is None else times.index_ms,
        "identity": _identity(read.identity),
        "epochs": _epochs(read, facts["endOffset"]),
    }


def _epochs(read: Import, end: int) -> list[tuple[int, int]]:
    return [] if read.epochs is None else read.epochs.drop_above(end).pairs()


def _identity(identity: Identity) -> dict[str, Any] | None:
    if identity is None:
        return None
    is_settled = isinstance(identity, BrokerIdentity)
    settled = identity if isinstance(identity, BrokerIdentity) else identity.identity
    return {
        "clusterName": settled.cluster,
        "brokerName": settled.broker,
        "brokerId": settled.broker_id,
        "confirmed": is_settled,
    }


def _text(facts: dict[str, Any]) -> str:
    start, end = facts["minOffset"], facts["endOffset"]
    rows = [
        ("store", f"{facts['store']} (written by {facts['writer']})"),
        ("state", _state_text(facts)),
        ("offsets", f"{start} to {end} ({size_text(end - start)})"),
        (
            "segments",
            f"{count_text(facts['segments'])} of {size_text(facts['segmentSize'])}",
        ),
    ]
    rows += [
        ("ill", f"{one['offset']} to {one['end']}: {one['path']}: {one['reason']}")
        for one in facts.get("ill", ())
    ]
    rows += [("foreign", reason) for reason in facts.get("foreign", ())]
    rows += [("not read", part) for part in facts.get("unread", ())]
    for name, key in _ROWS:
        if facts.get(key) is not None:
            rows.append((name, str(facts[key])))
    identity = facts["identity"]
    if identity is not None:
        note = "" if identity["confirmed"] else " (not confirmed by a controller)"
        name = f"{identity['clusterName']}/{identity['brokerName']}"
        rows.append(("identity", f"{name} broker {identity['brokerId']}{note}"))
    epochs = [f"{epoch} from {start}" for epoch, start in facts["epochs"]]
    rows.append(("epochs", "\n".join(epochs) or "none"))
    return pairs_text(rows)


_ROWS = (
    ("synced to", "syncedEnd"),
    ("published to", "publishedEnd"),
    ("confirmed to", "confirmOffset"),
    ("open cut at", "cutIntent"),
    ("damage at", "damageOffset"),
    ("incarnation", "incarnation"),
)


# By `sameBoot`; RocketMQ's files do not contain it.
_BOOTS = {
    True: ", since the machine was started",
    False: ", before the machine was started",
    None: "",
}


def _state_text(facts: dict[str, Any]) -> str:
    text: str = facts["state"]
    if text in ("closed", "damaged", "ill"):
        return verdict_text(text, is_good=text == "closed")
    if text == "open":
        return f"open: process {facts['writerPid'] or 'unknown'} writes to it"
    if text != "crashed":
        return text
    boot = _BOOTS[facts.get("sameBoot")]
    return f"crashed{boot}: the next opening recovers it"
