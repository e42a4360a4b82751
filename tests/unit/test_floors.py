"""
Imports go down the floors of docs/architecture.md, never up, and nowhere in a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from lib.imports import MODULES, ROOT, import_edges, imports_of

# Which package, with the packages in it that have no row of their own, or which single
# module stands on which floor. A module may import from its own package and from lower
# floors. Packages that do not exist yet have rows, too.
FLOORS = {
    "pystore.clocks": 0,
    "pystore.errors": 0,
    "pystore.stored_names": 0,
    "pystore.text": 0,
    "pystore.bindings": 1,
    "pystore.events": 1,
    "pystore.fs": 1,
    "pystore.replicaset": 1,
    "pystore.epochs": 2,
    "pystore.message": 2,
    "pystore.net": 2,
    "pystore.records": 2,
    "pystore.consumequeue": 3,
    "pystore.core": 3,
    "pystore.ha.wire": 3,
    "pystore.rates": 3,
    "pystore.remoting": 3,
    "pystore.rocketmq": 3,
    "pystore.seals": 3,
    "pystore.access": 4,
    "pystore.damage": 4,
    "pystore.ha.insync": 4,
    "pystore.metastore": 4,
    "pystore.nameserver": 4,
    "pystore.controller.model": 5,
    "pystore.recovery": 5,
    "pystore.controller.decide": 6,
    "pystore.controller.liveness": 6,
    "pystore.controller.protocol": 6,
    "pystore.spark.session": 6,
    "pystore.spark.task_runner": 7,
    "pystore.store": 6,
    "pystore.controller.client": 7,
    "pystore.controller.identity": 7,
    "pystore.controller.server": 7,
    "pystore.ha.master": 7,
    "pystore.ha.slave": 7,
    "pystore.salvage": 7,
    "pystore.segments": 7,
    "pystore.spark.plan": 7,
    "pystore.verify": 7,
    "pystore.compare": 8,
    "pystore.controller": 8,
    "pystore.ha": 8,
    "pystore.spark.scan": 8,
    "pystore.spark.verify": 8,
    "pystore": 9,
    "pystore.autorecovery": 9,
    "pystore.broker": 9,
    "pystore.doctor": 8,
    "pystore.spark.compact": 9,
    "pystore.spark.source": 9,
    "pystore.spark": 10,
    "pystore.demo": 10,
    "pystore.spark.export": 10,
    "pystore.spark.peers": 10,
    "pystore.cli": 11,
    "pystore.__main__": 12,
}

# The modules that may use sockets, threads, clocks and chance. For all others time and
# randomness are arguments, so that tests choose them.
RIM = {
    "pystore.autorecovery.auditor_thread",
    "pystore.autorecovery.controllers",
    "pystore.autorecovery.peer_client",
    "pystore.autorecovery.repair_counts",
    "pystore.autorecovery.worker_threads",
    "pystore.cli.broker",
    "pystore.cli.lib.recovery_works",
    "pystore.broker.control_client",
    "pystore.broker.node_upkeep",
    "pystore.broker.control_server",
    "pystore.broker.control_socket",
    "pystore.broker.controller_gateway",
    "pystore.broker.heartbeats",
    "pystore.broker.host",
    "pystore.broker.host_port",
    "pystore.broker.hosted_sets",
    "pystore.broker.ill_replica",
    "pystore.broker.ill_store",
    "pystore.broker.link_guard",
    "pystore.broker.mend_jobs",
    "pystore.broker.node",
    "pystore.broker.registrar",
    "pystore.broker.routes",
    "pystore.broker.segment_jobs",
    "pystore.broker.segment_requests",
    "pystore.cli.admin.client",
    "pystore.cli.admin.controllers",
    "pystore.cli.admin.sets",
    "pystore.cli.lib.progress",
    "pystore.cli.lib.service",
    "pystore.cli.recovery.mend",
    "pystore.cli.recovery.serve",
    "pystore.cli.replica",
    "pystore.cli.spark.export",
    "pystore.cli.spark.verify",
    "pystore.clocks",
    "pystore.controller.client.client",
    "pystore.controller.client.leader_lookup",
    "pystore.controller.server.audit",
    "pystore.controller.server.broker_sets",
    "pystore.controller.server.context",
    "pystore.controller.server.controller",
    "pystore.controller.server.death_check",
    "pystore.controller.server.describe_sets",
    "pystore.controller.server.host_records",
    "pystore.controller.server.leadership",
    "pystore.controller.server.name_server",
    "pystore.controller.server.new_cluster",
    "pystore.controller.server.notifier",
    "pystore.controller.server.pause_detector",
    "pystore.controller.server.set_history",
    "pystore.controller.server.store_threads",
    "pystore.controller.server.term",
    "pystore.controller.server.watchdog",
    "pystore.demo.cluster_watch",
    "pystore.demo.event_recorder",
    "pystore.demo.failover",
    "pystore.demo.hosted_traffic",
    "pystore.demo.recovery_run",
    "pystore.demo.run",
    "pystore.demo.set_processes",
    "pystore.demo.stream_writer",
    "pystore.demo.watchers",
    "pystore.events.line_queue",
    "pystore.ha.master.ack_completer",
    "pystore.ha.master.connection",
    "pystore.ha.master.insync_monitor",
    "pystore.ha.master.notifier",
    "pystore.ha.master.sender",
    "pystore.ha.master.service",
    "pystore.ha.master.set_change_requests",
    "pystore.ha.master.transport",
    "pystore.ha.master.write_authority",
    "pystore.ha.replica",
    "pystore.ha.slave.follower_thread",
    "pystore.ha.slave.replica_log",
    "pystore.ha.slave.sync_thread",
    "pystore.ha.slave.transport",
    "pystore.ha.status_client",
    "pystore.net.receiver",
    "pystore.net.service_loop",
    "pystore.net.tls",
    "pystore.net.tls_channel",
    "pystore.rates.host_rates",
    "pystore.rates.latency_samples",
    "pystore.rates.shared_rate",
    "pystore.records.leadership",
    "pystore.records.lmdb_environment",
    "pystore.records.lmdb_owners",
    "pystore.records.lmdb_store",
    "pystore.records.memory",
    "pystore.records.zookeeper_store",
    "pystore.remoting.acceptor",
    "pystore.remoting.client",
    "pystore.remoting.connection",
    "pystore.remoting.dispatch",
    "pystore.remoting.pending_calls",
    "pystore.remoting.server",
    "pystore.remoting.shutdown",
    "pystore.segments.pace",
    "pystore.segments.peer_copy",
    "pystore.segments.peer_server",
    "pystore.spark.peers.check",
    "pystore.spark.peers.run",
    "pystore.spark.session",
    "pystore.spark.verify.run",
    "pystore.spark.verify.task",
    "pystore.store.handle",
    "pystore.store.maintenance",
    "pystore.store.writer",
    "pystore.store.monitor",
    "pystore.store.shield",
    "pystore.verify.queues",
    "pystore.verify.scan_pool",
    "pystore.verify.store",
}
RIM_ONLY = {"asyncio", "random", "socket", "threading", "time"}

# Replication and controller: neither imports the other.
SIDES = ("pystore.ha.", "pystore.controller.")


def _row(module: str) -> str:
    """
    Returns the row that places a module: its own, or that of its nearest package.
    """
    while module not in FLOORS and "." in module:
        module = module.rpartition(".")[0]
    return module


def _circle(edges: Mapping[str, set[str]]) -> list[str]:
    """
    Returns the nodes of one circle; none, if there is none.
    """
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        # The second argument is the circle, which the test reports.
        circle: list[str] = error.args[1]
        return circle
    return []


def _graph(edges: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for one, other in edges:
        if one != other:
            graph.setdefault(one, set()).add(other)
    return graph


def test_every_module_has_a_floor() -> None:
    """
    A new package gets a row; a module at the top of the package, one of its own.
    """
    at_top = {name for name in MODULES if name.count(".") <= 1}

    assert [] == sorted(at_top - FLOORS.keys() - _packages() - {"pystore"})
    assert [] == sorted(name for name in MODULES if _row(name) == "pystore" != name)


def _packages() -> set[str]:
    return {name.rpartition(".")[0] for name in FLOORS}


def test_no_import_goes_up_or_to_another_package_of_the_same_floor() -> None:
    """
    A package imports only from lower floors.
    """
    upward = sorted(
        {
            (one, other)
            for one, other in import_edges()
            if _row(one) != _row(other) and FLOORS[_row(one)] <= FLOORS[_row(other)]
        }
    )

    assert [] == upward


def test_no_modules_import_each_other_in_a_circle() -> None:
    """
    Imports for types count: a reader follows them, too.
    """
    assert [] == _circle(_graph(import_edges()))


def test_no_packages_import_each_other_in_a_circle() -> None:
    """
    Each folder is a package here, with or without a row of its own.
    """
    pairs = ((_folder(one), _folder(other)) for one, other in import_edges())

    assert [] == _circle(_graph(pairs))


def _folder(module: str) -> str:
    """
    Returns the package of a module; a module with a row of its own stands for itself.
    """
    is_alone = module in FLOORS or MODULES[module].name == "__init__.py"
    return module if is_alone else module.rpartition(".")[0]


def test_a_circle_is_found() -> None:
    """
    Otherwise the two tests above could not fail.
    """
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}}

    assert {"a", "b", "c"} == set(_circle(edges))


def test_at_most_eight_files_stand_at_the_top_of_the_package() -> None:
    """
    There are at most thirteen floors.
    """
    flat = [path for path in (ROOT / "pystore").glob("*.py") if path.is_file()]

    assert len(flat) <= 8
    assert len(set(FLOORS.values())) <= 13


def test_replication_and_controller_do_not_import_each_other() -> None:
    """
    Only the broker combines them.
    """
    sides = [
        {name for name in edge if f"{name}.".startswith(SIDES)}
        for edge in import_edges()
    ]

    assert [] == [side for side in sides if len({n.split(".")[1] for n in side}) > 1]


def test_only_the_listed_modules_use_sockets_threads_clocks_and_chance() -> None:
    """
    A module that no longer needs them is removed from the list.
    """
    users = {
        module
        for module, path in MODULES.items()
        for name in imports_of(path)
        if name.split(".")[0] in RIM_ONLY
    }

    assert sorted(RIM) == sorted(users)
