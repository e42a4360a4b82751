"""
The columns of a log as a table, and the parts of a record that each needs. Pure.

Names are those of ``pystore dump``. Only requested columns are read. Spark does not
pass the columns of a query to a Python source, so the user names them: in the schema,
or in the option ``columns``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pystore.errors import InvalidError

__all__ = [
    "BODY",
    "COLUMNS",
    "DAMAGE",
    "Column",
    "choose_columns",
    "column_of",
    "ddl",
    "needs_of",
    "without_nulls",
]


@dataclass(frozen=True, slots=True)
class Column:
    """
    One column.

    Attributes:
        name: as in ``pystore dump``.
        type: Spark's name of the type.
        needs: what must be read in addition to the row, separated by spaces:
            ``topic``, ``tags``, ``bytes`` of the record, ``properties``, ``epochs``.
        text: description for people.
        is_nullable: whether the table declares the column as nullable.
        alias: the user's spelling of the name; empty: the same.
    """

    name: str
    type: str
    needs: str
    text: str
    is_nullable: bool = True
    alias: str = ""


BODY = "body"
DAMAGE = "damage"

_ALL = (
    Column("store", "string", "", "root of the store"),
    Column("segment", "bigint", "", "base offset of the segment"),
    Column("offset", "bigint", "", "offset of the record in the log"),
    Column("size", "int", "", "size of the record in bytes"),
    Column(
        "epoch",
        "bigint",
        "epochs",
        "epoch of the master that wrote it; null: not known",
    ),
    Column("topic", "string", "topic", "topic"),
    Column("queueId", "int", "", "queue of the topic"),
    Column("queueOffset", "bigint", "", "queue offset of the record"),
    Column("storeTimestamp", "timestamp", "", "when the broker stored it"),
    Column("bornTimestamp", "timestamp", "", "when the client sent it"),
    Column("storeHost", "string", "bytes", "broker, address:port"),
    Column("bornHost", "string", "bytes", "client, address:port"),
    Column("keys", "string", "bytes properties", "KEYS, separated by spaces"),
    Column("tags", "string", "bytes properties", "TAGS"),
    Column(
        "tagsCode",
        "bigint",
        "tags",
        "hash of the tags, or delivery time of a delayed message",
    ),
    Column("uniqKey", "string", "bytes properties", "id given by the client"),
    Column("msgId", "string", "bytes", "store host and offset, in hex"),
    Column("flag", "int", "", "flag of the application"),
    Column("sysFlag", "int", "", "compression, transaction, address kinds"),
    Column("reconsumeTimes", "int", "", "number of failed consumptions"),
    Column("preparedTransactionOffset", "bigint", "", "offset of the half message"),
    Column("magic", "bigint", "", "magic code, unsigned"),
    Column("bodyCRC", "bigint", "", "stored checksum of the body"),
    Column("bodyLength", "int", "", "size of the body as stored, in bytes"),
    Column("properties", "map<string,string>", "bytes properties", "all properties"),
    Column(BODY, "binary", "bytes", "the body as stored"),
    Column(DAMAGE, "string", "", "problem of these bytes; null: a record"),
)

COLUMNS = {column.name: column for column in _ALL}
"""All columns by name, in the order of the table."""

_BY_LOWER = {name.lower(): name for name in COLUMNS}

_CAN_BE_NULL = frozenset(
    ("epoch", "storeTimestamp", "bornTimestamp", "keys", "tags", "uniqKey", DAMAGE)
)
_OF_DAMAGE = frozenset(("store", "segment", "offset", "size"))


def choose_columns(
    wanted: Iterable[str] | None, *, with_body: bool, with_damage: bool
) -> tuple[Column, ...]:
    """
    Returns the columns of a table.

    Args:
        wanted: names in the requested order, in any case; ``None``: all columns,
            ``body`` and ``damage`` only as below.
        with_body: whether all columns include ``body``.
        with_damage: whether damaged ranges are rows, too; then ``damage`` is always
            a column.

    Raises:
        InvalidError: a name is unknown, or comes twice.
    """
    if wanted is None:
        left_out = {BODY} - ({BODY} if with_body else set())
        left_out |= {DAMAGE} - ({DAMAGE} if with_damage else set())
        return tuple(column for column in _ALL if column.name not in left_out)
    names = [_BY_LOWER.get(name.lower(), name) for name in wanted]
    if with_damage and DAMAGE not in names:
        names.append(DAMAGE)
    for name in names:
        if name not in COLUMNS:
            raise InvalidError(
                f"column {name!r} is unknown: use one of {', '.join(COLUMNS)}"
            )
        if names.count(name) > 1:
            raise InvalidError(f"column {name!r} is requested twice")
    return tuple(COLUMNS[name] for name in names)


def column_of(name: str, kind: str) -> Column:
    """
    Returns the column of a user's schema. A name that no column has is a column of
    nulls.

    Args:
        name: in any case.
        kind: Spark's name of the type, for a column of nulls.
    """
    found = COLUMNS.get(_BY_LOWER.get(name.lower(), ""))
    if found is None:
        return Column(name, kind, "", "null: the table has no such column")
    return found if found.name == name else replace(found, alias=name)


def without_nulls(
    columns: Iterable[Column], *, with_damage: bool
) -> tuple[Column, ...]:
    """
    Returns the columns; those that are never null are not nullable.

    Spark checks each value of a nullable column for null, which takes time.

    Args:
        columns: of a table.
        with_damage: whether damaged ranges are rows, too; most of their columns are
            null.
    """
    return tuple(
        replace(column, is_nullable=_can_be_null(column.name, with_damage=with_damage))
        for column in columns
    )


def _can_be_null(name: str, *, with_damage: bool) -> bool:
    if name not in COLUMNS:
        return True
    return name not in _OF_DAMAGE if with_damage else name in _CAN_BE_NULL


def ddl(columns: Iterable[Column]) -> str:
    """
    Returns the schema of a table as DDL of Spark.
    """
    return ", ".join(
        f"`{column.name}` {column.type}{'' if column.is_nullable else ' NOT NULL'}"
        for column in columns
    )


def needs_of(columns: Iterable[Column]) -> frozenset[str]:
    """
    Returns what must be read in addition to the rows.
    """
    return frozenset(need for column in columns for need in column.needs.split())
