"""
``pystore spark compact``: keeps the latest record of each key.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE, error_line
from pystore.cli.lib.group import StorePath, json_option, store_argument
from pystore.cli.lib.output import echo_json, table_text
from pystore.cli.spark import master_option
from pystore.errors import CorruptError, InvalidError
from pystore.spark.compact.sizes import DEFAULT_LOG_BYTES, DEFAULT_QUEUE_BYTES
from pystore.text import count_text, size_text

if TYPE_CHECKING:
    from pystore.spark.compact.layout import QueueLayout
    from pystore.spark.compact.run import Compaction

__all__ = ["compact"]

_EXAMPLE = """\b
Example: show what a compaction would remove, then compact the topics of prices
  pystore spark compact /data/store
  pystore spark compact --topic 'price-*' --into /data/compacted /data/store
"""
_HEADER = (
    "queue",
    "records",
    "bytes",
    "tombstones",
    "keys",
    "kept",
    "bytes kept",
    "bytes removed",
)
_SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "32768"}


@click.command(short_help="Keep the latest record of each key.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--into",
    type=StorePath(),
    metavar="DIR",
    help="Write the compaction store DIR/compaction. By default nothing is written.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    help="Compact only topics that match; may be given several times.",
)
@click.option(
    "--keep-tombstones",
    is_flag=True,
    help="Keep the newest record of a key even if it has no body, for consumers that "
    "lag.",
)
@click.option(
    "--log-file-bytes",
    type=click.IntRange(1),
    default=DEFAULT_LOG_BYTES,
    show_default=True,
    metavar="N",
    help="The broker's compactionMappedFileSize.",
)
@click.option(
    "--queue-file-bytes",
    type=click.IntRange(1),
    default=DEFAULT_QUEUE_BYTES,
    show_default=True,
    metavar="N",
    help="The broker's compactionCqMappedFileSize.",
)
@master_option
@json_option
def compact(
    *,
    store: Path,
    into: Path | None,
    topics: tuple[str, ...],
    keep_tombstones: bool,
    log_file_bytes: int,
    queue_file_bytes: int,
    master: str | None,
    as_json: bool,
) -> int:
    """
    Count, or with --into write, the latest record of each key in each queue of STORE.

    The key is the whole property KEYS; records without it are left out. A record
    without a body is a tombstone: it is removed with all older records of its key.
    The newest record of a queue always stays. STORE is not changed, and may be in
    use. Nothing above its confirm offset is read.

    DIR/compaction appears when it is complete. After a killed run, the same command
    continues the work. RocketMQ 5.3 can load DIR/compaction as its compaction store.
    DIR/compaction/logs/TOPIC/QUEUE is the root of an ordinary log.

    The exit code is 1 if a record is bad; then nothing is compacted.
    """
    # Spark is needed from here on; the command line alone must not need it.
    from pystore.spark.compact import run  # noqa: PLC0415
    from pystore.spark.compact.jobs import SparkJobs  # noqa: PLC0415
    from pystore.spark.compact.plan import CompactionChoice  # noqa: PLC0415
    from pystore.spark.compact.sizes import file_sizes  # noqa: PLC0415
    from pystore.spark.session import open_session  # noqa: PLC0415

    try:
        sizes = file_sizes(log_file_bytes, queue_file_bytes)
    except InvalidError as error:
        # The numbers come from the command line.
        raise click.UsageError(str(error)) from error
    choice = CompactionChoice(topics, keep_tombstones, sizes)
    root = Path(os.path.abspath(store))  # workers have another current directory
    try:
        with open_session("pystore compact", master, _SETTINGS) as session:
            jobs = SparkJobs(session)
            if into is None:
                found = run.survey(jobs, root, choice)
            else:
                target = Path(os.path.abspath(into))
                found = run.compact(jobs, root, target, choice)
    except CorruptError as error:
        # The result of a check: the store is damaged.
        click.echo(f"pystore: {error_line(error)}", err=True)
        if as_json:
            echo_json({"store": str(store), "error": str(error)})
        return BAD
    if as_json:
        echo_json(_json(found, store, into))
    else:
        click.echo("\n".join(_lines(found, store, into)))
    return DONE


def _lines(found: Compaction, store: Path, into: Path | None) -> list[str]:
    records = sum(queue.count.records for queue in found.queues)
    kept = sum(queue.records for queue in found.queues)
    sizes = [_sizes(queue) for queue in found.queues]
    before, after = (sum(column) for column in zip((0, 0), *sizes, strict=True))
    keyless = sum(queue.count.keyless for queue in found.queues)
    did = "would be removed" if into is None else "are removed"
    lines = [
        _table(found.queues),
        f"{store}: {count_text(records - kept)} of {count_text(records)} records, "
        f"{size_text(before - after)} of {size_text(before)}, {did}; up to offset "
        f"{found.plan.end}",
    ]
    if keyless:
        lines.append(
            f"  note: {count_text(keyless)} records have no keys and are left out"
        )
    if into is None:
        lines.append("  nothing was written: use --into DIR to write")
    else:
        lines.append(f"{into / 'compaction'}: {size_text(after)}")
    return lines


def _sizes(queue: QueueLayout) -> tuple[int, int]:
    return queue.count.size_bytes, queue.size_bytes


def _table(queues: Sequence[QueueLayout]) -> str:
    return table_text(
        _HEADER,
        [
            (
                f"{queue.count.topic} {queue.count.queue_id}",
                count_text(queue.count.records),
                size_text(queue.count.size_bytes),
                count_text(queue.count.tombstones),
                count_text(queue.keys),
                count_text(queue.records),
                size_text(queue.size_bytes),
                size_text(queue.count.size_bytes - queue.size_bytes),
            )
            for queue in queues
        ],
    )


def _json(found: Compaction, store: Path, into: Path | None) -> dict[str, Any]:
    return {
        "store": str(store),
        "into": None if into is None else str(into / "compaction"),
        "endOffset": found.plan.end,
        "inputBytes": found.plan.input_bytes,
        "resumed": found.is_resumed,
        "queues": [
            {
                "topic": queue.count.topic,
                "queueId": queue.count.queue_id,
                "records": queue.count.records,
                "bytes": queue.count.size_bytes,
                "keylessRecords": queue.count.keyless,
                "tombstones": queue.count.tombstones,
                "keys": queue.keys,
                "keptRecords": queue.records,
                "keptBytes": queue.size_bytes,
                "keptTombstones": queue.tombstones,
                "lastQueueOffset": queue.count.last_queue_offset,
                "files": len(queue.files),
            }
            for queue in found.queues
        ],
        "error": None,
    }
