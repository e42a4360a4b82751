"""
Random messages, as plain values and as pystore takes them.
"""

from __future__ import annotations

from hypothesis import strategies as st

from lib.oracle.model import Spec
from pystore.message.columns import Columns, gather_columns
from pystore.message.message import Message

TOPICS = ("A", "topic", "Ümläute", "%RETRY%" + "g" * 140)
TAGS = ("red", "green", "Aa", "BB")  # the last two have one hash

text = st.text(
    st.characters(exclude_characters="\0\1\2", exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
)
names = text.filter(lambda name: name not in ("KEYS", "TAGS", "__CRC32#"))
hosts = st.sampled_from([None, "10.1.2.3:80", "[2001:db8::1]:65535"])
flags = st.sampled_from([0, 0, 0, 0x1, 0x4, 0x8, 0xC])


@st.composite
def properties(draw: st.DrawFn) -> tuple[tuple[str, str], ...]:
    """
    Properties in order, with keys and tags now and then.
    """
    found = draw(st.dictionaries(names, text, max_size=2))
    if draw(st.booleans()):
        found["KEYS"] = draw(text)
    if draw(st.booleans()):
        found["TAGS"] = draw(st.sampled_from(TAGS))
    return tuple(found.items())


def bodies(size_max: int) -> st.SearchStrategy[bytes]:
    """
    Bodies, of a few bytes and of any size.
    """
    sizes = st.integers(0, size_max).map(
        lambda n: bytes((n * i) & 0xFF for i in range(n))
    )
    return st.one_of(st.binary(max_size=20), sizes)


def specs(body_size_max: int) -> st.SearchStrategy[Spec]:
    """
    Messages of all kinds.
    """
    return st.builds(
        Spec,
        topic=st.sampled_from(TOPICS),
        body=bodies(body_size_max),
        queue_id=st.integers(0, 2),
        properties=properties(),
        flag=st.integers(-(2**31), 2**31 - 1),
        sys_flag=flags,
        reconsume_times=st.integers(0, 2**31 - 1),
        born_ms=st.integers(0, 2**41),
        prepared_offset=st.integers(0, 2**63 - 1),
        born_host=hosts,
    )


def message_of(spec: Spec) -> Message:
    """
    A message as pystore takes it.
    """
    return Message(
        spec.topic,
        spec.body,
        queue_id=spec.queue_id,
        properties=dict(spec.properties),
        flag=spec.flag,
        sys_flag=spec.sys_flag,
        reconsume_times=spec.reconsume_times,
        born_ms=spec.born_ms,
        prepared_offset=spec.prepared_offset,
        born_host=spec.born_host,
    )


Row = tuple[int, bytes, str, str]
"""
Queue, body, keys and tags of one message.
"""

rows_of_columns = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 900).map(lambda n: bytes([n & 0xFF]) * n),
        st.sampled_from(["", "k", "k1 k2"]),
        st.sampled_from(["", "red", "Aa"]),
    ),
    min_size=1,
    max_size=25,
)


def columns_of(rows: list[Row]) -> Columns:
    """
    Rows as columns.
    """
    queues, bodies, keys, tags = zip(*rows, strict=True)
    return gather_columns(
        "columns",
        list(bodies),
        queue_ids=list(queues),
        keys=[key.encode() for key in keys],
        tags=[tag.encode() for tag in tags],
    )


def row_specs(rows: list[Row]) -> list[Spec]:
    """
    The messages that rows of columns are.
    """
    return [
        Spec(
            "columns",
            body,
            queue,
            tuple((n, v) for n, v in (("KEYS", key), ("TAGS", tag)) if v),
        )
        for queue, body, key, tag in rows
    ]
