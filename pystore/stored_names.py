"""
The names by which pickles know what is public, whatever module it is in today.

A pickle names a class by its module. `public` gives a class or a function of the public
interface the module ``pystore``, `stored` gives a class inside of public values this
module, so that pickles do not change when a module moves. Pickles of before modules
moved into packages name the modules of that time, which `StoredNames` finds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar, cast

__all__ = ["StoredNames", "install", "public", "stored"]

_Public = TypeVar("_Public", bound=Callable[..., Any])

# What is no part of the public interface and is inside of values that are: its name in
# pickles, which name this module, and its home today, below ``pystore``.
_STORED = {
    "BrokerIdentity": "rocketmq.identity_file.BrokerIdentity",
    "CheckpointTimes": "rocketmq.checkpoint_file.CheckpointTimes",
    "CutHistory": "fs.cut_history.CutHistory",
    "CutState": "metastore.values.CutState",
    "Found": "recovery.foreign_writer.Found",
    "Import": "recovery.foreign_writer.Import",
    "Incarnation": "replicaset.Incarnation",
    "LiveWords": "core.live_page.LiveWords",
    "Loss": "recovery.salvage.Loss",
    "QueueMark": "metastore.values.QueueMark",
    "QueueOffsets": "metastore.values.QueueOffsets",
    "RecoveryPlan": "recovery.plan.RecoveryPlan",
    "Stale": "recovery.torn_tail.Stale",
    "Survey": "recovery.survey.Survey",
    "TemporaryIdentity": "rocketmq.identity_file.TemporaryIdentity",
    "Torn": "recovery.torn_tail.Torn",
    "Whole": "recovery.torn_tail.Whole",
}

# The modules and names of revision 7f377bd that its pickles hold: names of ``pystore``,
# or of this module.
_MOVED = {
    "columns": ("Columns", "gather_columns"),
    "exports": ("BrokerIdentity", "CheckpointTimes"),
    "foreign": ("Found", "Import"),
    "inspection": ("Inspection", "inspect"),
    "keeper": ("Keeper", "open_log", "open_store"),
    "log": ("CommitLog",),
    "loss": ("Loss",),
    "messages": ("Message",),
    "opening": ("Plan",),
    "options": ("Route",),
    "record": ("Record",),
    "report": ("RecoveryReport",),
    "results": ("Appended", "Block", "CutReport", "Ends", "LiveWords"),
    "retention": ("Retention",),
    "rows": ("Check", "Proof", "Stop"),
    "survey": ("Survey",),
    "torn": ("Stale", "Torn", "Whole"),
    "truth": ("CutState", "Incarnation", "Positions"),
}

_RENAMED = {
    "Keeper": "MaintenanceThread",
    "Plan": "RecoveryPlan",
    "Positions": "QueueOffsets",
}


def __getattr__(name: str) -> object:
    if name not in _STORED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, _, today = _STORED[name].rpartition(".")
    found: object = getattr(import_module(f"pystore.{home}"), today)
    return found


def public(found: _Public) -> _Public:
    """
    Decorates a class or a function of the public interface.
    """
    found.__module__ = "pystore"
    return _with_later_fields(found)


def stored(found: _Public) -> _Public:
    """
    Decorates a class that is not public, but a part of public values.
    """
    found.__module__ = __name__
    return _with_later_fields(found)


def _with_later_fields(found: _Public) -> _Public:
    """
    Lets a dataclass with slots be loaded from a pickle that was made before its last
    fields were added: these get their defaults.
    """
    # `dataclasses` is not imported: it would cost each start of a program 10 ms.
    if hasattr(found, "__dataclass_fields__") and "__slots__" in vars(found):
        kind: Any = found
        kind.__setstate__ = _set_state
    return found


def _set_state(self: Any, state: Sequence[object]) -> None:  # noqa: ANN401
    known = list(self.__dataclass_fields__.values())
    later = [field.default for field in known[len(state) :]]
    for field, value in zip(known, [*state, *later], strict=True):
        object.__setattr__(self, field.name, value)


class StoredNames:
    """
    Finds the modules that old pickles name. The interpreter asks it last.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """
        Returns a specification for an old module, ``None`` for any other name.
        """
        package, _, name = fullname.partition(".")
        known = package == "pystore" and name in _MOVED
        # A finder that is its own loader. The abstract base classes of both would cost
        # each start of a program some milliseconds.
        return ModuleSpec(fullname, cast("Any", self)) if known else None

    def create_module(self, spec: ModuleSpec) -> None:
        """
        Leaves it to the interpreter to make the module.
        """

    def exec_module(self, module: ModuleType) -> None:
        """
        Gives the module a function that finds its names where they are today.
        """
        names = _MOVED[module.__name__.partition(".")[2]]

        def find(name: str) -> object:
            if name not in names:
                text = f"module {module.__name__!r} has no attribute {name!r}"
                raise AttributeError(text)
            today = _RENAMED.get(name, name)
            home = __name__ if today in _STORED else "pystore"
            found: object = getattr(import_module(home), today)
            return found

        module.__dict__["__getattr__"] = find


def install() -> None:
    """
    Lets the interpreter ask, once.
    """
    if not any(isinstance(finder, StoredNames) for finder in sys.meta_path):
        sys.meta_path.append(StoredNames())
