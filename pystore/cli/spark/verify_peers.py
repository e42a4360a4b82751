"""
``pystore spark verify --peers``: its options, and what it tells about marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pystore.cli.admin.client import addresses_option
from pystore.cli.lib.peer_tls import peer_tls, peer_tls_options
from pystore.cli.recovery.records import records_opener, records_options
from pystore.text import count_text

if TYPE_CHECKING:
    from pystore.records.record_store import RecordStore
    from pystore.spark.peers.access import BrokerAccess
    from pystore.spark.peers.run import PeerVerification, RoundWishes

__all__ = ["PeerWishes", "marks_told", "opened_peers", "peer_options", "wanted_peers"]

_F = TypeVar("_F", bound=Callable[..., Any])

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="With --peers: controllers, which tell who is in a set and alive.",
    is_required=False,
)


@dataclass(frozen=True, slots=True)
class PeerWishes:
    """
    The options of ``--peers``.

    Attributes:
        controllers: their addresses.
        open_store: opens their record store.
        access: how brokers are reached.
        wishes: of each round.
    """

    controllers: tuple[str, ...]
    open_store: Callable[[], RecordStore]
    access: BrokerAccess
    wishes: RoundWishes


def peer_options(command: _F) -> _F:
    """
    Adds the options of ``--peers`` to a command.
    """
    command = peer_tls_options(command)
    for option in (
        click.option(
            "--credentials",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar="PYSTORE_CREDENTIALS",
            metavar="FILE",
            help="With --peers: sign requests as this user, who needs the role "
            "operator. It has the same path on every host of Spark, as those of TLS.",
        ),
        click.option(
            "--force",
            is_flag=True,
            help="With --mark: mark, though it is more than brake_percent of the "
            "segments.",
        ),
        click.option(
            "--mark",
            is_flag=True,
            help="With --peers: mark what is bad and confirmed by its broker, so that "
            "`pystore recovery daemon` repairs it. Without it, say what would be "
            "marked.",
        ),
        click.option(
            "--direct-share",
            type=click.FloatRange(0, 1),
            default=0.01,
            show_default=True,
            metavar="SHARE",
            help="With --peers: share of the copies of which Spark reads the bytes "
            "itself, too.",
        ),
        click.option(
            "--set",
            "only",
            metavar="CLUSTER/SET",
            multiple=True,
            help="With --peers: only this set. May be repeated.",
        ),
    ):
        command = option(command)
    command = records_options(command)
    command = _controllers(command)
    return click.option(
        "--peers",
        is_flag=True,
        help="Check the replicas of running brokers: each reads its own disk, and "
        "tells the digests. Needs -a and --records.",
    )(command)


def wanted_peers(
    stores: tuple[str, ...], sample: int, options: Mapping[str, Any]
) -> PeerWishes | None:
    """
    Returns what is wanted of running replicas; ``None``: stores are named by path.

    Raises:
        click.UsageError: the options do not fit each other.
        PystoreError: as `records_opener`; a file of TLS is wrong.
    """
    if not options["peers"]:
        if options["mark"] or options["force"]:
            raise click.UsageError("--mark and --force need --peers")
        if not stores:
            raise click.UsageError("name a STORE, or give --peers")
        return None
    if stores:
        raise click.UsageError("--peers checks replicas of brokers: name no STORE")
    if not options["controllers"]:
        raise click.UsageError("--peers needs -a HOST:PORT of the controllers")
    if options["force"] and not options["mark"]:
        raise click.UsageError("--force needs --mark")
    from pystore.spark.peers.access import BrokerAccess  # noqa: PLC0415
    from pystore.spark.peers.run import RoundWishes  # noqa: PLC0415

    tls = options["authorities"], options["certificate"], options["key"]
    peer_tls(*tls)  # its errors come before Spark starts
    credentials = options["credentials"]
    access = BrokerAccess(
        str(credentials.absolute()) if credentials else "",
        *(str(Path(name).absolute()) if name else "" for name in tls),
    )
    wishes = RoundWishes(
        tuple(_set_names(text) for text in options["only"]),
        sample,
        options["direct_share"],
        is_marking=options["mark"],
        is_forced=options["force"],
    )
    open_store = records_opener(options["records"], options["config"])
    return PeerWishes(options["controllers"], open_store, access, wishes)


def _set_names(text: str) -> tuple[str, str]:
    cluster, _, name = text.partition("/")
    if not cluster or not name or "/" in name:
        raise click.UsageError(f"--set {text} is not CLUSTER/SET")
    return cluster, name


@contextmanager
def opened_peers(wanted: PeerWishes) -> Iterator[PeerVerification]:
    """
    Connects to controllers and brokers.

    Raises:
        PystoreError: a file of TLS or of credentials is wrong.
    """
    from pystore.autorecovery.controllers import LeadingControllers  # noqa: PLC0415
    from pystore.autorecovery.peer_client import RemotePeers  # noqa: PLC0415
    from pystore.controller.client.client import ControllerClient  # noqa: PLC0415
    from pystore.spark.peers.run import PeerVerification  # noqa: PLC0415

    signs, tls = wanted.access.signs(), wanted.access.tls()
    with (
        LeadingControllers(
            lambda: ControllerClient(wanted.controllers, signs=signs, tls=tls)
        ) as controllers,
        RemotePeers(signs=signs, tls=tls) as peers,
    ):
        yield PeerVerification(
            controllers,
            peers,
            wanted.open_store,
            access=wanted.access,
            wishes=wanted.wishes,
        )


def marks_told(job: PeerVerification) -> tuple[dict[str, Any], list[str]]:
    """
    Returns what became of the damage of the last round, as JSON values and as lines.
    """
    marks = job.marks
    row = {
        "isMarking": marks.is_marking,
        "confirmed": marks.confirmed,
        "passedOver": marks.passed_over,
        "outcomes": {one.value: many for one, many in marks.outcomes.items()},
        "problem": marks.problem,
        "stopped": job.stopped,
    }
    word = "marked" if marks.is_marking else "would be marked"
    lines = [f"  {word}: {one}" for one in marks.confirmed]
    lines += (f"  not marked: {one}" for one in marks.passed_over)
    if job.stopped:
        lines.append(f"  the round ended early, and marked nothing: {job.stopped}")
    elif marks.problem:
        lines.append(f"  nothing was marked: {marks.problem}")
    elif marks.outcomes:
        counts = (f"{count_text(n)} {one.value}" for one, n in marks.outcomes.items())
        lines.append(f"  marks: {', '.join(counts)}")
    elif marks.confirmed:
        lines.append("  nothing was marked: give --mark")
    return row, lines
