"""
The columns of a log as a table, and what of a record each one needs. Pure.

Names are those of ``pystore dump``. A column is read only where it is asked for:
Spark does not tell a Python source which columns a query needs, so the schema that
a user gives, or the option ``columns``, says so.
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
    "ddl",
    "needs_of",
    "without_nulls",
]


@dataclass(frozen=True, slots=True)
class Column:
    """
    One column.

    Attributes:
        name: as ``pystore dump`` says it.
        type: Spark's name of the type.
        needs: what must be read beside the row: ``topic``, ``tags``, ``bytes`` of
            the record, ``epochs``; each may be several, with spaces between them.
        text: what it holds, for people.
        is_nullable: whether the table says that it can be null.
    """

    name: str
    type: str
    needs: str
    text: str
    is_nullable: bool = True


BODY = "body"
DAMAGE = "damage"

_ALL = (
    Column("store", "string", "", "root of the store"),
    Column("segment", "bigint", "", "base offset of the segment"),
    Column("offset", "bigint", "", "where the record begins in the log"),
    Column("size", "int", "", "bytes of the record"),
    Column("epoch", "bigint", "epochs", "mastership that wrote it; null: not known"),
    Column("topic", "string", "topic", "topic"),
    Column("queueId", "int", "", "queue of the topic"),
    Column("queueOffset", "bigint", "", "place in the queue"),
    Column("storeTimestamp", "timestamp", "", "when the broker stored it"),
    Column("bornTimestamp", "timestamp", "", "when the client sent it"),
    Column("storeHost", "string", "bytes", "broker, address:port"),
    Column("bornHost", "string", "bytes", "client, address:port"),
    Column("keys", "string", "bytes properties", "KEYS, with spaces between them"),
    Column("tags", "string", "bytes properties", "TAGS"),
    Column("tagsCode", "bigint", "tags", "hash of the tags, or when it is due"),
    Column("uniqKey", "string", "bytes properties", "id that the client gave"),
    Column("msgId", "string", "bytes", "store host and offset, in hex"),
    Column("flag", "int", "", "flag of the application"),
    Column("sysFlag", "int", "", "compression, transaction, address kinds"),
    Column("reconsumeTimes", "int", "", "how often it was consumed in vain"),
    Column("preparedTransactionOffset", "bigint", "", "of the half message"),
    Column("magic", "bigint", "", "magic code, unsigned"),
    Column("bodyCRC", "bigint", "", "stored checksum of the body"),
    Column("bodyLength", "int", "", "bytes of the body as stored"),
    Column("properties", "map<string,string>", "bytes properties", "all properties"),
    Column(BODY, "binary", "bytes", "the body as stored"),
    Column(DAMAGE, "string", "", "what is wrong with these bytes; null: a record"),
)

COLUMNS = {column.name: column for column in _ALL}
"""All columns by name, in the order in which a table has them."""

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
        wanted: names in the order asked for; ``None``: all but the two below.
        with_body: bodies, where nothing was asked for.
        with_damage: damaged ranges are rows, too, so ``damage`` is always there.

    Raises:
        InvalidError: no such column, or one twice.
    """
    if wanted is None:
        left_out = {BODY} - ({BODY} if with_body else set())
        left_out |= {DAMAGE} - ({DAMAGE} if with_damage else set())
        return tuple(column for column in _ALL if column.name not in left_out)
    names = list(wanted)
    if with_damage and DAMAGE not in names:
        names.append(DAMAGE)
    for name in names:
        if name not in COLUMNS:
            raise InvalidError(
                f"column {name!r}: there is none of that name: one of "
                f"{', '.join(COLUMNS)}"
            )
        if names.count(name) > 1:
            raise InvalidError(f"column {name!r} is asked for twice")
    return tuple(COLUMNS[name] for name in names)


def without_nulls(
    columns: Iterable[Column], *, with_damage: bool
) -> tuple[Column, ...]:
    """
    Returns the columns, not nullable where they never are null.

    Spark asks each value of a nullable column whether it is null, before it takes it.

    Args:
        columns: of a table.
        with_damage: damaged ranges are rows, too, and are null but for their place.
    """
    return tuple(
        replace(column, is_nullable=_can_be_null(column.name, with_damage=with_damage))
        for column in columns
    )


def _can_be_null(name: str, *, with_damage: bool) -> bool:
    return name not in _OF_DAMAGE if with_damage else name in _CAN_BE_NULL


def ddl(columns: Iterable[Column]) -> str:
    """
    Returns the schema of a table in Spark's words.
    """
    return ", ".join(
        f"`{column.name}` {column.type}{'' if column.is_nullable else ' NOT NULL'}"
        for column in columns
    )


def needs_of(columns: Iterable[Column]) -> frozenset[str]:
    """
    Returns what must be read beside the rows.
    """
    return frozenset(need for column in columns for need in column.needs.split())
