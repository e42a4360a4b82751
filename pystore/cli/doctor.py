"""
``pystore doctor``: what heals a damaged store, in the order of loss.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE, UNFINISHED
from pystore.cli.lib.group import StorePath, json_option, store_argument
from pystore.cli.lib.output import echo_json, lines_text, verdict_text
from pystore.cli.lib.progress import ProgressBar
from pystore.doctor.apply import Healing, heal
from pystore.doctor.plan import HealingPlan, Step, make_plan
from pystore.fs.layout import require_store
from pystore.text import count_text
from pystore.verify import Damage, StoreReport, verify_store

__all__ = ["doctor"]

_JOBS_MAX = 4

_EXAMPLE = """\b
Example: the plan, with the bytes of a replica, then do it
  pystore doctor /data/store --replica /backup/store
  pystore doctor /data/store --replica /backup/store --apply
"""

_TEXTS = {
    "rebuild": "build it again from the log",
    "seal again": "remove the seal; the segment is sealed again",
    "replica": "take the bytes from a replica",
    "filler": "put filler records in place of the damaged bytes",
    "cut": "give up a part of the log",
    "by hand": "restore it by hand, from a replica or a backup",
}


@click.command(short_help="Show what heals a store, and heal it.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    type=StorePath(),
    metavar="DIR",
    help="A store that may have the damaged bytes; may be given several times.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Do it.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="With --apply, also give up bytes that no replica has. They are first saved "
    "beside the store.",
)
@click.option(
    "--save-to",
    type=StorePath(file_okay=False),
    metavar="DIR",
    help="Save what is replaced or removed below DIR, and not beside STORE.",
)
@json_option
def doctor(
    *,
    store: Path,
    replicas: tuple[Path, ...],
    is_applied: bool,
    accept_loss: bool,
    save_to: Path | None,
    as_json: bool,
) -> int:
    """
    Check STORE as verify does, and show what heals it, in the order of loss.

    Queues are built again from the log, seals from their segments; bytes of the log
    come from a replica, if they prove themselves and belong to the same log. What no
    replica has is replaced by filler records in a store of no set; else the log is cut
    there, with everything behind it. Both need --accept-loss.
    With --apply, STORE must have no writer; what is replaced is kept beside STORE. The
    exit code is 1 if STORE is damaged, with --apply if it still is; 3 if the system did
    not show a part of it.
    """
    for replica in replicas:
        require_store(replica)
        if store.exists() and replica.samefile(store):
            raise click.UsageError(f"{replica} is STORE: name another store")
    if is_applied:
        with ProgressBar(f"verify {store.name}") as progress:
            done = heal(
                store,
                replicas,
                accept_loss=accept_loss,
                save_to=save_to,
                progress=progress.reach,
            )
        report = _verify(store)
    else:
        report = _verify(store)
        done = Healing(make_plan(store, report, replicas), None)
    plan, kept = done
    if as_json:
        echo_json(_json(store, report, plan, kept, is_applied=is_applied))
    else:
        click.echo(lines_text(_lines(store, report, plan, kept, is_applied)))
    if report.damages:
        return BAD
    return UNFINISHED if report.unknown else DONE


def _verify(store: Path) -> StoreReport:
    with ProgressBar(f"verify {store.name}") as progress:
        return verify_store(store, min(os.cpu_count() or 1, _JOBS_MAX), progress.reach)


def _lines(
    store: Path,
    report: StoreReport,
    plan: HealingPlan,
    kept: Path | None,
    is_applied: bool,
) -> list[str]:
    verdict = verdict_text(
        report.verdict, is_good=not (report.damages or report.unknown)
    )
    lines = [
        f"{store}: {verdict}"
        + (" after these steps" if is_applied and plan.steps else "")
    ]
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"  {number}. {_step_text(step)}")
        lines += [
            f"     because {_reason(one)} [{', '.join(one.basis)}]"
            for one in step.damages
        ]
    lines += [
        f"  not from {one.source}: offsets {one.offset} to {one.end}: {one.reason}"
        for one in plan.refusals
    ]
    if kept is not None:
        lines.append(f"  what was replaced is in {kept}")
    if plan.steps and not is_applied:
        has_cut = plan.lost_bytes > 0
        consent = " --accept-loss" if has_cut else ""
        lines.append(f"  nothing was changed: `--apply{consent}` does it")
        if has_cut:
            lines.append(
                "  to lose less, name a store that has the bytes: --replica DIR"
            )
    elif plan.lost_bytes and report.damages:
        lines.append("  steps with a loss were not done: they need --accept-loss")
    return lines


def _reason(damage: Damage) -> str:
    reason = damage.reason.removeprefix(f"{damage.path}: ")
    return reason.removeprefix(f"record at offset {damage.offset}: ")


def _step_text(step: Step) -> str:
    text = f"{_TEXTS[step.heal]}: {step.path}"
    if step.offset is not None and step.end is not None:
        text += f", offsets {step.offset} to {step.end}"
    if step.source is not None:
        text += f", from {step.source}"
    lost = f"{count_text(step.lost_bytes)} bytes" if step.lost_bytes else "nothing"
    return text if step.heal == "by hand" else f"{text} (loses {lost})"


def _json(
    store: Path,
    report: StoreReport,
    plan: HealingPlan,
    kept: Path | None,
    *,
    is_applied: bool,
) -> dict[str, Any]:
    return {
        "store": str(store),
        "verdict": report.verdict,
        "applied": is_applied,
        "kept": None if kept is None else str(kept),
        "lostBytes": plan.lost_bytes,
        "steps": [
            {
                "heal": step.heal,
                "path": str(step.path),
                "offset": step.offset,
                "endOffset": step.end,
                "source": None if step.source is None else str(step.source),
                "lostBytes": step.lost_bytes,
                "damages": [
                    {
                        "path": one.path,
                        "offset": one.offset,
                        "reason": one.reason,
                        "part": one.part,
                        "basis": list(one.basis),
                    }
                    for one in step.damages
                ],
            }
            for step in plan.steps
        ],
        "refusals": [
            {
                "source": str(one.source),
                "offset": one.offset,
                "endOffset": one.end,
                "reason": one.reason,
            }
            for one in plan.refusals
        ],
    }
