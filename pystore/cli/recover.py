"""
``pystore recover``: shows what opening cuts, and cuts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE, error_line
from pystore.cli.lib.group import StorePath, json_option, store_argument
from pystore.cli.lib.output import echo_json, pairs_text, verdict_text
from pystore.cli.lib.progress import ProgressBar
from pystore.cli.lib.recovery_text import recovery_json, stranded_text
from pystore.cli.lib.rocketmq_config import (
    KEYS,
    adjusted,
    check_store,
    parse_settings,
    values_of,
)
from pystore.errors import InvalidError, PystoreError
from pystore.recovery.dry_run import Inspection, inspect
from pystore.rocketmq.properties_file import read_properties_file
from pystore.store.commit_log import CommitLog
from pystore.store.report import RecoveryReport, report_of
from pystore.text import count_text, size_text
from pystore.verify import StoreReport, verify_store

__all__ = ["recover"]

_LOST_SHOWN = 10

_EXAMPLE = """\b
Example: what would happen, then do it
  pystore recover /data/store --dry-run
  pystore recover /data/store
"""


@click.command(short_help="Show what opening cuts, and cut it.", epilog=_EXAMPLE)
@store_argument
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Cut the log where promised bytes are bad. Everything after the cut is first "
    "saved beside the store, and the whole records in it are listed.",
)
@click.option(
    "--save-to",
    type=StorePath(file_okay=False),
    metavar="DIR",
    help="Save removed bytes that hold whole records below DIR, and not beside STORE; "
    "this also consents to more than 64 MiB of them.",
)
@click.option(
    "--config",
    type=StorePath(),
    metavar="FILE",
    help="RocketMQ's configuration, such as broker.conf: it decides which end RocketMQ "
    "would find, and how missing queue entries are built.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"One setting of that file: {', '.join(KEYS)}.",
)
@json_option
def recover(
    *,
    store: Path,
    dry_run: bool,
    accept_loss: bool,
    save_to: Path | None,
    config: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """
    Open STORE for writing as after a crash, and report what was cut.

    The report also has the end that RocketMQ would find. The end of pystore is the same
    or lower; if lower, a rule of docs/crash-safety.md gives the reason. The exit code
    is 1 if promised bytes are bad: then nothing is changed without --accept-loss. With
    --dry-run every byte is checked, and the exit code is that of `pystore verify`.
    """
    try:
        texts = {} if config is None else read_properties_file(config)
        texts |= parse_settings(settings)
        values = values_of(texts)
        inspection = inspect(store, lambda opening: adjusted(opening, texts))
        check_store(texts, store, inspection.segment_size)
    except InvalidError as error:
        # A wrong setting is wrong usage.
        raise click.UsageError(str(error)) from error
    except PystoreError as error:
        # No opening comes to a plan; verify names all that is bad.
        if not dry_run:
            raise
        return _dry_run_without_plan(store, error, as_json=as_json)
    report = report_of(inspection.plan)
    verified = _verify(store) if dry_run else None
    is_refused = inspection.plan.corrupt is not None and not accept_loss
    if not dry_run and not is_refused:
        with CommitLog(
            store, create=False, accept_loss=accept_loss, save_to=save_to, **values
        ) as log:
            report = log.recovery
    if as_json:
        found = _json(store, inspection, report, dry_run or is_refused)
        echo_json(found | ({} if verified is None else {"verdict": verified.verdict}))
    else:
        click.echo(_text(store, inspection, report, dry_run or is_refused))
        if verified is not None and verified.damages:
            count = len(verified.damages)
            click.echo(
                f"verify finds damage in {count} places: `pystore doctor {store}` "
                "shows what heals it"
            )
    is_damaged = verified is not None and bool(verified.damages)
    return BAD if is_refused or is_damaged else DONE


def _dry_run_without_plan(store: Path, error: PystoreError, *, as_json: bool) -> int:
    """
    The exit code of a dry run that an error ended.

    Raises:
        PystoreError: the error, if verify finds no damage: it could not finish.
    """
    verified = _verify(store)
    if not verified.damages:
        raise error
    if as_json:
        found = {"store": str(store), "dryRun": True, "damageReason": str(error)}
        echo_json(found | {"verdict": verified.verdict})
    else:
        rows = [
            ("store", f"{store} (nothing was changed)"),
            ("damage", verdict_text(error_line(error), is_good=False)),
            ("to do", f"`pystore doctor {store}` shows what heals it"),
        ]
        click.echo(pairs_text(rows))
    return BAD


def _verify(store: Path) -> StoreReport:
    with ProgressBar(f"verify {store.name}") as progress:
        return verify_store(store, progress=progress.reach)


def _json(
    store: Path, inspection: Inspection, report: RecoveryReport, is_dry: bool
) -> dict[str, Any]:
    corrupt = inspection.plan.corrupt
    return {
        "store": str(store),
        "dryRun": is_dry,
        **recovery_json(report),
        "confirmOffset": inspection.plan.confirm_offset,
        "rocketmqEndOffset": inspection.plan.rocketmq_end,
        "damageReason": "" if corrupt is None else corrupt.reason,
    }


def _text(
    store: Path, inspection: Inspection, report: RecoveryReport, is_dry: bool
) -> str:
    plan = inspection.plan
    rows = [("store", str(store) + (" (nothing was changed)" if is_dry else ""))]
    rows += [("foreign", reason) for reason in report.foreign]
    if plan.corrupt is not None:
        damage = verdict_text(f"offset {plan.corrupt.offset}", is_good=False)
        reason = f"{plan.corrupt.reason} (rule {plan.corrupt.rule})"
        rows.append(("damage", f"{damage}: {reason}"))
    rows += [
        (
            "checked",
            f"{size_text(report.scanned_bytes)}, "
            f"{count_text(report.records)} records"
            + (" (the clean mark holds)" if report.is_clean else ""),
        ),
        ("end offset", str(report.end_offset)),
        ("RocketMQ's end", str(plan.rocketmq_end)),
        ("bound", f"{report.bound} ({report.bound_name})"),
        ("cut", _cut_text(report)),
    ]
    if report.stranded:
        rows.append(("empty segments", stranded_text(report.stranded)))
    if report.loss is not None:
        rows.append(
            (
                "saved",
                f"{count_text(report.loss.bytes_saved)} bytes in "
                f"{report.loss.directory}",
            )
        )
        rows.append(("whole records lost", _lost_text(report.loss.records)))
    if plan.corrupt is not None and is_dry:
        rows.append(
            (
                "to do",
                "`pystore doctor` shows what heals it, with --replica without loss; "
                "or give up the damaged part with --accept-loss",
            )
        )
    return pairs_text(rows)


def _cut_text(report: RecoveryReport) -> str:
    if report.cut_offset is None:
        return "nothing"
    return (
        f"{count_text(report.cut_bytes)} bytes: {report.cut_reason} "
        f"(rule {report.rule})"
    )


def _lost_text(records: Sequence[int]) -> str:
    if not records:
        return "none"
    shown = ", ".join(str(offset) for offset in records[:_LOST_SHOWN])
    more = len(records) - _LOST_SHOWN
    rest = f" and {count_text(more)} more (--json lists them)" if more > 0 else ""
    return f"{count_text(len(records))}, at offsets {shown}{rest}"
