"""
``pystore init-cluster``: keys, certificates, users and configurations of a new cluster.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from pystore.access.cluster_files import ClusterPlan, cluster_files
from pystore.access.cluster_folder import write_cluster
from pystore.cli.lib.exit_codes import DONE
from pystore.errors import InvalidError

__all__ = ["init_cluster"]

_EXAMPLE = """\b
Example: a controller and a set of two brokers on three hosts
  pystore init-cluster secure --controller 10.0.0.1:9878 \\
      --broker broker-a=10.0.0.11:10911 --broker broker-a=10.0.0.12:10911
"""


@click.command(
    "init-cluster",
    short_help="Make keys, certificates and configurations.",
    epilog=_EXAMPLE,
)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--controller",
    "controllers",
    multiple=True,
    required=True,
    metavar="HOST:PORT",
    help="A controller, which is a name server, too; several need --zookeeper.",
)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="NAME=HOST:PORT",
    help="A broker of the set NAME; may be given again.",
)
@click.option(
    "--name", default="DefaultCluster", show_default=True, help="Of the cluster."
)
@click.option(
    "--zookeeper", default="", metavar="HOSTS", help="Of several controllers."
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=825,
    show_default=True,
    help="How long the certificates are valid.",
)
def init_cluster(
    folder: Path,
    *,
    controllers: tuple[str, ...],
    brokers: tuple[str, ...],
    name: str,
    zookeeper: str,
    days: int,
) -> int:
    """
    Write to DIR, a new directory, what each process of a cluster needs in which every
    request is signed and every connection of controllers and name servers speaks TLS.
    Copy each folder to its host, and start the process there, in that folder.
    """
    some = []
    for one in brokers:
        set_name, equals, address = one.partition("=")
        if not (set_name and equals):
            raise click.BadParameter(f"{one!r} is no NAME=HOST:PORT")
        some.append((set_name, address))
    try:
        plan = ClusterPlan(name, controllers, some, zookeeper=zookeeper, days=days)
    except InvalidError as error:
        # Nothing is written yet.
        raise click.UsageError(str(error)) from error
    files = cluster_files(plan, dt.datetime.now(dt.UTC))
    write_cluster(folder, files)
    for number, address in enumerate(controllers, 1):
        click.echo(f"{folder}/controller-{number}: for {address}, where you start")
        click.echo("    pystore controller -c controller.toml")
    for number, (set_name, address) in enumerate(some, 1):
        click.echo(f"{folder}/broker-{number}: for {set_name} at {address}")
        click.echo("    pystore broker -c broker.toml")
    click.echo(f"{folder}/rocketmq: for brokers and tools of RocketMQ")
    click.echo("then, as the operator:")
    click.echo(
        f"    pystore admin --credentials {folder}/operator.yml --tls-authorities "
        f"{folder}/ca.pem getControllerMetaData -a {controllers[0]}"
    )
    click.echo(f"keep {folder}/ca.key and {folder}/cluster.key secret")
    return DONE
