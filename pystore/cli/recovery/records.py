"""
The record store of a command: named as that of a controller is, and opened for it.
"""

from __future__ import annotations

import logging
import os
import pwd
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.cli.lib.controller_config import read_controller_config
from pystore.cli.lib.output import echo_json, lines_text
from pystore.clocks import wall_ms
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.record_store import record_store
from pystore.errors import FormatError, InvalidError, NotAStoreError
from pystore.records.record_store import RecordStore

__all__ = [
    "dry_run_option",
    "late_records_opener",
    "open_queue",
    "open_records",
    "operator_name",
    "parse_segment",
    "records_opener",
    "records_options",
    "segment_argument",
    "tell_change",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_SERVERS = re.compile(r"[^/,]+:[0-9]{1,5}(,[^/,]+:[0-9]{1,5})*(/.*)?")
_DATA = "data.mdb"

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be done."
)


def records_options(command: _F) -> _F:
    """
    Adds ``--records`` and ``--config`` to a command, as its arguments ``records`` and
    ``config``: those of `open_records`.
    """
    command = click.option(
        "-c",
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="PYSTORE_CONTROLLER_CONFIG",
        metavar="FILE",
        help="The configuration of a controller, which names its record store, and "
        "how ZooKeeper is reached: user, SASL, TLS, root.",
    )(command)
    return click.option(
        "--records",
        envvar="PYSTORE_RECORDS",
        metavar="DIR|HOSTS",
        help="The record store of the controllers: their --store, or their --zookeeper "
        "HOST:PORT,...; it overrides that of the file.",
    )(command)


def parse_segment(
    _context: click.Context, _parameter: click.Parameter, value: str
) -> SegmentKey:
    """
    Returns a segment; its offset needs no leading zeros. The callback of an argument.
    """
    names, _, start = value.rpartition("/")
    try:
        return SegmentKey.parse(f"{names}/{start:0>20}")
    except FormatError as error:
        # Of a record's key, too; here it is what was typed.
        raise click.BadParameter(f"{value!r} is not CLUSTER/SET/OFFSET") from error


def segment_argument(command: _F) -> _F:
    """
    Adds a segment to a command, as its argument ``segment``.
    """
    return click.argument("segment", callback=parse_segment)(command)


def records_opener(
    records: str | None, config: Path | None
) -> Callable[[], RecordStore]:
    """
    Returns a function that opens the record store which the options name, each time
    anew.

    Raises:
        click.UsageError: they name none, or it cannot be reached as they say.
        NotAStoreError: there is no record store in that directory.
    """
    try:
        _check_place(_settings(records, config).store)
        return late_records_opener(records, config)
    except InvalidError as error:
        # Nothing is open yet.
        raise click.UsageError(str(error)) from error


def late_records_opener(
    records: str | None, config: Path | None
) -> Callable[[], RecordStore]:
    """
    Returns a function as `records_opener` does, for a record store that may come later:
    the function raises `NotAStoreError` as long as there is none.

    Raises:
        InvalidError: no record store is named, or it cannot be reached as it is said.
    """
    settings = _settings(records, config)
    opened = record_store(settings)
    # kazoo logs each attempt to connect; the error says it once.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)

    def opened_there() -> RecordStore:
        # LMDB would make an empty one.
        _check_place(settings.store)
        return opened()

    return opened_there


def _check_place(store: str) -> None:
    if store and not (Path(store) / _DATA).is_file():
        raise NotAStoreError(
            f"{store}: there is no record store: name the --store or --zookeeper of "
            "the controllers",
            path=store,
        )


@contextmanager
def open_records(records: str | None, config: Path | None) -> Iterator[RecordStore]:
    """
    Opens the record store that the options name.

    Raises:
        click.UsageError: as `records_opener`; also `NotAStoreError`.
        UnavailableError: ZooKeeper does not answer.
    """
    store = records_opener(records, config)()
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_queue(
    records: str | None, config: Path | None
) -> Iterator[UnderReplicationQueue]:
    """
    Opens the queue in the record store that the options name; as `open_records`.
    """
    with open_records(records, config) as store:
        yield UnderReplicationQueue(store, wall_ms)


def _settings(records: str | None, config: Path | None) -> ControllerConfig:
    texts: dict[str, str] = {}
    if config is not None:
        texts = read_controller_config(config).texts
    if records:
        texts = {k: v for k, v in texts.items() if k not in ("store", "zookeeper")}
        is_servers = _SERVERS.fullmatch(records) and not os.path.isdir(records)
        texts["zookeeper" if is_servers else "store"] = records
    if not (texts.get("store") or texts.get("zookeeper")):
        raise InvalidError(
            "name the record store of the controllers: --records DIR or HOST:PORT,..., "
            "or their --config FILE"
        )
    return ControllerConfig().with_texts(texts, is_running=False)


def operator_name() -> str:
    """
    Returns who runs the command, for the records: ``USER@HOST``.
    """
    user = os.environ.get("SUDO_USER", "")
    if not user:
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            # As in a container.
            user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def tell_change(
    lines: list[str], row: dict[str, Any], *, as_json: bool, dry_run: bool
) -> None:
    """
    Prints what was changed, or would be.
    """
    if as_json:
        echo_json({"isDryRun": dry_run, **row})
        return
    if dry_run:
        lines = [*(f"would be done: {one}" for one in lines), "nothing was changed"]
    click.echo(lines_text(lines))
