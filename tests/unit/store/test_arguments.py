"""
A wrong argument is an `InvalidError` that names it, never damage or a `TypeError`.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lib.store.stores import SEGMENT, fill, message

import pystore
from pystore.errors import CorruptError, InvalidError, PystoreError
from pystore.store.commit_log import CommitLog
from pystore.store.maintenance import open_log, open_store
from pystore.store.retention import Retention
from pystore.store.store import Store

SEED = 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """
    A store with 30 records.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as opened:
        fill(opened.log, 30)
        yield opened


MISTAKES: dict[str, tuple[Callable[[Store], object], str]] = {
    "one message as a batch": (
        lambda store: store.log.append_batch(message(1)),  # type: ignore[arg-type]
        "messages: Message is no iterable of Messages",
    ),
    "bytes as a batch": (
        lambda store: store.log.append_batch(b"abc"),  # type: ignore[arg-type]
        "messages: int is no Message",
    ),
    "a datetime as a time": (
        lambda store: store.offset_at_time("Topic", 0, datetime.now(UTC)),  # type: ignore[arg-type]
        "time_ms .*datetime",
    ),
    "a timedelta as hours": (
        lambda _: Retention(reserved_hours=timedelta(hours=1)),  # type: ignore[arg-type]
        "reserved_hours: .*timedelta",
    ),
    "a text as a size": (
        lambda _: Retention(total_bytes_max="1g"),  # type: ignore[arg-type]
        "total_bytes_max .*1g",
    ),
    "a datetime as now": (
        lambda store: store.retain(Retention(), datetime.now(UTC)),  # type: ignore[arg-type]
        "now_ms .*datetime",
    ),
    "hours as a retention": (
        lambda store: store.retain(72, 0),  # type: ignore[arg-type]
        "retention: .*int",
    ),
    "a misspelled ack": (
        lambda store: store.log.append(message(1), ack="leader-sync"),  # type: ignore[arg-type]
        "leader-sync",
    ),
    "no columns": (
        lambda store: store.log.append_columns([b"a"]),  # type: ignore[arg-type]
        "columns: .*list",
    ),
    "no route": (
        lambda store: store.log.append_client_batch("t", b""),  # type: ignore[arg-type]
        "route: .*str",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_caller_names_the_parameter(store: Store, name: str) -> None:
    """
    The text says which argument, and what it is.
    """
    call, text = MISTAKES[name]
    with pytest.raises(InvalidError, match=text):
        call(store)


@pytest.mark.parametrize(
    "name",
    ["segment_size", "message_size_max", "flush_interval_ms", "writeback_bytes"],
)
@pytest.mark.parametrize("value", [timedelta(seconds=1), "1", None, 1.5, -1, 2**64])
def test_a_wrong_option_is_named(tmp_path: Path, name: str, value: object) -> None:
    """
    And no others: nobody wants to search in a list of all options.
    """
    options: dict[str, Any] = {name: value}
    for opener in (CommitLog, Store, open_log, open_store):
        with pytest.raises(InvalidError, match=f"^{name} ") as found:
            opener(tmp_path / "store", **options)
        assert "property_crc" not in str(found.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("path", ["", None, 5, b"store", "a\0b", Path()])
@pytest.mark.parametrize(
    "opener", [CommitLog, Store, open_log, open_store, pystore.inspect]
)
def test_an_empty_path_and_what_is_no_path_are_refused(
    opener: Callable[..., object],
    path: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    An unset variable must not make a store in the current folder. ``Path()`` is what
    ``Path("")`` gives, and cannot be told from ``Path(".")``.
    """
    monkeypatch.chdir(tmp_path)
    expected = PystoreError if isinstance(path, Path) else InvalidError
    if isinstance(path, Path):
        (tmp_path / "other").touch()
    with pytest.raises(expected):
        opener(path)

    assert [] == [one.name for one in tmp_path.iterdir() if one.name != "other"]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_a_string_or_a_path(tmp_path: Path, kind: type) -> None:
    """
    In every call that takes one.
    """
    root = kind(tmp_path / "store")
    for opener in (CommitLog, Store, open_log, open_store):
        with opener(root, segment_size=SEGMENT):
            pass
        with opener(root, mode="r"):
            pass

    assert pystore.inspect(root).plan.is_clean


def test_every_opening_has_the_same_options_and_lists_them() -> None:
    """
    ``help`` shows each with its default.
    """
    wanted = dict(inspect.signature(CommitLog.__init__).parameters)
    for opener in (open_log, open_store, Store.__init__):
        found = inspect.signature(opener).parameters
        names = set(wanted) - {"self"}
        assert {n: str(wanted[n]) for n in names} == {n: str(found[n]) for n in names}
        text = inspect.getdoc(Store if opener is Store.__init__ else opener)
        for name in set(found) - {"self", "path", "mode"}:
            assert re.search(rf"^ *(\w+, )*{name}\b.*:", str(text), re.M), name


@pytest.mark.parametrize("kind", [np.uint64, np.int64, np.int32])
def test_an_offset_of_a_row_is_an_offset(
    store: Store, kind: type[np.integer[Any]]
) -> None:
    """
    Rows of a scan are of numpy, and their integers are no plain ones.
    """
    end = store.log.append(message(1)).end
    store.log.append(message(2))
    store.cut(kind(end))  # type: ignore[arg-type]
    assert end == store.log.end_offset
    store.log.keep()
    assert 0 == store.log.delete_before(kind(end))  # type: ignore[arg-type]
    assert store.log.read(kind(0)).offset == 0  # type: ignore[arg-type]


_ANY: list[Any] = [
    None, "", "Topic", b"x", -1, 0, 3, 2**31, 2**63, 2**64, 1.5, float("nan"),
    (), [None], {"a": 1}, object(), timedelta(1), datetime.now(UTC), message(1),
    Retention(), Path("x"), True, lambda: None,
]  # fmt: skip


def _calls(store: Store, chance: random.Random) -> Iterator[Callable[[], object]]:
    """
    Yields public methods of a store and its log, with arguments of any kind.
    """
    log = store.log
    for owner in (store, log):
        for name in sorted(n for n in dir(owner) if not n.startswith("_")):
            method = getattr(type(owner), name, None)
            if not inspect.isfunction(method) or name in _NOT_CALLED:
                continue
            names = list(inspect.signature(method).parameters)[1:]
            for _ in range(40):
                given = [chance.choice(_ANY) for _ in names]
                if name in ("read", "queue_range", "read_from") and owner is store:
                    given[0] = chance.choice(["Topic", given[0]])
                positional = _positional(method, given)
                yield partial(getattr(owner, name), *positional)


_NOT_CALLED = {
    "close", "before_close", "begin_at", "cut",
    # They have no public caller: the epoch is that of a controller.
    "begin_epoch",
}  # fmt: skip


def _positional(method: Callable[..., object], given: list[Any]) -> list[Any]:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        value
        for parameter, value in zip(parameters, given, strict=True)
        if parameter.kind in kinds
    ]


def test_arguments_of_any_kind_are_never_damage(store: Store) -> None:
    """
    Every public method, with values of every kind: an error is one of pystore's, and
    none says that the store is corrupt.
    """
    print(f"seed {SEED}")
    problems = []
    for call in _calls(store, random.Random(SEED)):
        try:
            found = call()
            if isinstance(found, Iterator):
                next(found, None)
        except CorruptError as error:
            # An offset inside of a record; the core's part.
            if "no record begins at offset" not in str(error):
                problems.append(f"{call}: {error!r}")
        except PystoreError:
            continue
        except Exception as error:
            problems.append(f"{call.func.__qualname__}{call.args}: {error!r}")  # type: ignore[attr-defined]

    assert [] == problems
