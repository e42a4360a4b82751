"""
Imports go down the floors of docs/architecture.md, never up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"pystore": "pystore", "ha": "pystore.ha", "controller": "pystore.controller"}

# Which module, or folder of modules, stands on which floor. A new one is
# entered here, and in the table of docs/architecture.md.
FLOORS = {
    "pystore._core": 0,
    "pystore._seam": 0,
    "pystore.errors": 0,
    "pystore.rows": 0,
    "pystore.adopting": 1,
    "pystore.arrow": 1,
    "pystore.bad_record": 1,
    "pystore.bodies": 1,
    "pystore.boot": 1,
    "pystore.change": 1,
    "pystore.checkpoint": 1,
    "pystore.closing": 1,
    "pystore.columns": 1,
    "pystore.cutting": 1,
    "pystore.dispatch": 1,
    "pystore.dispatching": 1,
    "pystore.epoch_file": 1,
    "pystore.epochs": 1,
    "pystore.exports": 1,
    "pystore.file_pool": 1,
    "pystore.files": 1,
    "pystore.first_start": 1,
    "pystore.foreign": 1,
    "pystore.forms": 1,
    "pystore.handle": 1,
    "pystore.hosts": 1,
    "pystore.identity": 1,
    "pystore.index": 1,
    "pystore.inspection": 1,
    "pystore.lines": 1,
    "pystore.live": 1,
    "pystore.lock": 1,
    "pystore.log": 1,
    "pystore.loss": 1,
    "pystore.messages": 1,
    "pystore.meta_file": 1,
    "pystore.opening": 1,
    "pystore.options": 1,
    "pystore.properties": 1,
    "pystore.queue": 1,
    "pystore.queue_files": 1,
    "pystore.queue_form": 1,
    "pystore.queues": 1,
    "pystore.readable": 1,
    "pystore.reader": 1,
    "pystore.reading": 1,
    "pystore.record": 1,
    "pystore.record_batch": 1,
    "pystore.report": 1,
    "pystore.results": 1,
    "pystore.retention": 1,
    "pystore.rocketmq": 1,
    "pystore.scan": 1,
    "pystore.sealing": 1,
    "pystore.seals": 1,
    "pystore.situation": 1,
    "pystore.spark": 1,
    "pystore.starting": 1,
    "pystore.store": 1,
    "pystore.stored_truth": 1,
    "pystore.survey": 1,
    "pystore.torn": 1,
    "pystore.truth": 1,
    "pystore.waits": 1,
    "pystore.broker": 2,
    "pystore.broker.asking": 3,
    "pystore.controller": 2,
    "pystore.controller.client": 4,
    "pystore.controller.identity_store": 3,
    "pystore.controller.leader_search": 4,
    "pystore.controller.registering": 3,
    "pystore.controller.server.answers": 2,
    "pystore.controller.server.campaign": 3,
    "pystore.controller.server.details": 2,
    "pystore.controller.server.handlers": 4,
    "pystore.controller.server.heartbeats": 2,
    "pystore.controller.server.history": 2,
    "pystore.controller.server.kept_settings": 2,
    "pystore.controller.server.keys": 2,
    "pystore.controller.server.leader": 3,
    "pystore.controller.server.name_serving": 4,
    "pystore.controller.server.needs": 2,
    "pystore.controller.server.node": 4,
    "pystore.controller.server.opening": 3,
    "pystore.controller.server.place": 3,
    "pystore.controller.server.refusals": 2,
    "pystore.controller.server.requests": 2,
    "pystore.controller.server.sets": 3,
    "pystore.controller.server.settings": 2,
    "pystore.controller.server.telling": 4,
    "pystore.controller.server.vigil": 3,
    "pystore.ha": 2,
    "pystore.nameserver": 2,
    "pystore.nameserver.service": 3,
    "pystore.remoting": 2,
    "pystore.remoting.closing": 3,
    "pystore.remoting.connection": 3,
    "pystore.remoting.handling": 3,
    "pystore.records": 2,
    "pystore.ha.master.asking": 3,
    "pystore.ha.master.authority": 3,
    "pystore.ha.master.bell": 3,
    "pystore.ha.master.appends": 3,
    "pystore.ha.master.judge": 3,
    "pystore.ha.master.sender": 3,
    "pystore.ha.master.transport": 3,
    "pystore.ha.master.served_link": 4,
    "pystore.ha.master.service": 4,
    "pystore.ha.replica": 4,
    "pystore.ha.slave.following": 4,
    "pystore.ha.receiving": 3,
    "pystore.ha.slave.keeping": 3,
    "pystore.ha.slave.replica_log": 3,
    "pystore.ha.slave.syncing": 3,
    "pystore.keeper": 3,
    "pystore.records.leadership": 3,
    "pystore.records.lmdb_space": 3,
    "pystore.records.lmdb_store": 3,
    "pystore.records.memory": 3,
    "pystore.records.owners": 3,
    "pystore.records.zookeeper_store": 3,
    "pystore.verify": 3,
    "pystore": 4,
    "pystore.__main__": 4,
    "pystore.cli": 4,
    "pystore.demo": 4,
    "pystore.ha.slave.follower": 4,
    "pystore.ha.slave.stream": 4,
    "pystore.remoting.client": 4,
    "pystore.remoting.server": 4,
    "pystore.spark.compact": 4,
    "pystore.spark.export": 4,
    "pystore.spark.session": 4,
    "pystore.spark.verify": 4,
}

# Sockets, threads, clocks and chance come in from the rim.
RIM = 3
RIM_ONLY = {"asyncio", "random", "socket", "threading", "time"}

# Replication and controller: neither imports the other.
SIDES = ("pystore.ha.", "pystore.controller.")


def _module(path: Path) -> str:
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((FOLDERS[folder], *rest)).removesuffix(".__init__")


MODULES = {
    _module(path): path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(above.is_symlink() for above in path.parents)
}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def _floor(module: str) -> int:
    """
    Returns the floor; a module without one fails a test of its own.
    """
    return FLOORS.get(_placed(module), RIM)


def _placed(module: str) -> str:
    """
    Returns the entry that places the module: its own or its folder's.
    """
    while module not in FLOORS and module.count(".") > 1:
        module = module.rpartition(".")[0]
    return module


def _target(name: str) -> str:
    """
    Returns the module of ours that an imported dotted name lives in.
    """
    while name not in FLOORS and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def _edges() -> Iterator[tuple[str, str]]:
    for module, path in MODULES.items():
        for name in _imports(path):
            if name.split(".")[0] == "pystore":
                yield module, _target(name)


def test_every_module_has_a_floor() -> None:
    """
    A module that nobody placed cannot be checked.
    """
    assert [] == sorted({_placed(module) for module in MODULES} - FLOORS.keys())


def test_no_module_imports_from_a_floor_above() -> None:
    """
    What is below does not know what stands on it.
    """
    upward = sorted({edge for edge in _edges() if _floor(edge[0]) < _floor(edge[1])})

    assert [] == upward


def test_replication_and_controller_do_not_know_each_other() -> None:
    """
    The broker alone composes them.
    """
    sides = [
        {name for name in edge if f"{name}.".startswith(SIDES)} for edge in _edges()
    ]

    assert [] == [side for side in sides if len({n.split(".")[1] for n in side}) > 1]


def test_sockets_threads_clocks_and_chance_stay_at_the_rim() -> None:
    """
    Below the rim, time and randomness are arguments, so tests can choose them.
    """
    found = [
        (module, name)
        for module, path in MODULES.items()
        if _floor(module) < RIM
        for name in _imports(path)
        if name.split(".")[0] in RIM_ONLY
    ]

    assert [] == found
