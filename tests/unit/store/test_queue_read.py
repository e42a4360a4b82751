"""
Reading through entries of consume queues that are wrong.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lib.command_line import overwrite
from lib.store.stores import SEGMENT

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.doctor.apply import heal
from pystore.errors import CorruptError, OffsetOutOfRange
from pystore.message.message import Message
from pystore.store.store import Store

RECORDS = 12
TAGS_CODE_AT = 12
BODIES = [b"%d" % number for number in range(RECORDS)]


def filled(root: Path) -> Path:
    """
    A closed store; returns the file of the queue.
    """
    with Store(root, segment_size=SEGMENT) as store:
        store.log.append_batch([Message("orders", body, tags="a") for body in BODIES])
        store.log.append_batch([Message("other", body) for body in BODIES])
    (file,) = (root / "consumequeue" / "orders" / "0").iterdir()
    return file


def bodies_from(store: Store, index: int) -> list[bytes]:
    """
    Of all records of the queue from a queue offset on.
    """
    return [record.body for record in store.read_from("orders", 0, index, 100)]


def test_an_entry_above_the_log_is_a_named_error_and_is_passed_by(
    tmp_path: Path,
) -> None:
    """
    The error names the queue offset and what heals it; the next one can be read.
    """
    root = tmp_path / "store"
    file = filled(root)
    overwrite(file, 4 * ENTRY_SIZE, b"\x7f")
    named = (
        r"orders, queue 0, queue offset 4: the entry names offset 9\d+, and the log "
    )
    advice = r"doctor --apply.* can be read on from queue offset 5"
    for mode in ("w", "r"):
        with Store(root, mode=mode) as store:
            for call in (
                lambda: store.read("orders", 0, 4),
                lambda: store.read_from("orders", 0, 0, 100),
                lambda: list(store.find_tag("orders", 0, "a")),
            ):
                with pytest.raises(CorruptError, match=named + ".*" + advice) as caught:
                    call()
                assert (str(file), 4 * ENTRY_SIZE) == (
                    caught.value.path,
                    caught.value.offset,
                )
            assert BODIES[:4] == [
                one.body for one in store.read_from("orders", 0, 0, 4)
            ]
            assert BODIES[5:] == bodies_from(store, 5)


def test_an_entry_that_names_a_record_of_another_queue_hands_out_none(
    tmp_path: Path,
) -> None:
    """
    A record is whole wherever a wrong entry finds it; it is not the one asked for.
    """
    root = tmp_path / "store"
    file = filled(root)
    (other,) = (root / "consumequeue" / "other" / "0").iterdir()
    own = file.read_bytes()[3 * ENTRY_SIZE : 4 * ENTRY_SIZE]
    for index, entry, text in (
        (4, own, "orders, queue 0, queue offset 3"),
        (5, other.read_bytes()[5 * ENTRY_SIZE : 6 * ENTRY_SIZE], "other, queue 0"),
    ):
        overwrite(file, index * ENTRY_SIZE, entry)
        with (
            Store(root) as store,
            pytest.raises(CorruptError, match=f"which is {text}"),
        ):
            store.read_from("orders", 0, index, 1)
        with Store(root, mode="r") as store:
            assert BODIES[6:] == bodies_from(store, 6)


def test_a_changed_body_is_named_by_its_queue_offset_too(tmp_path: Path) -> None:
    """
    Then the log is damaged, not the queue.
    """
    root = tmp_path / "store"
    filled(root)
    with Store(root) as store:
        (queue,) = (one for one in store.queues if one.topic == "orders")
        at = queue.read(4).offset + store.read("orders", 0, 4).body_at
    overwrite(root / "commitlog" / f"{0:020d}", at, b"?")
    with (
        Store(root, mode="r") as store,
        pytest.raises(CorruptError, match=r"queue offset 4: .*body CRC.* if the "),
    ):
        bodies_from(store, 0)


def test_an_opening_builds_a_queue_whose_last_entry_is_above_the_log(
    tmp_path: Path,
) -> None:
    """
    The last entry says where the queue ends in the log, so it is looked at.
    """
    root = tmp_path / "store"
    file = filled(root)
    whole = file.read_bytes()
    overwrite(file, (RECORDS - 1) * ENTRY_SIZE, b"\x7f")
    with Store(root) as store:
        assert BODIES == bodies_from(store, 0)
    assert whole == file.read_bytes()


def read_or_error(store: Store, index: int) -> bytes:
    """
    The body of a queue offset; empty: the error names it, or the queue ends there.
    """
    try:
        return store.read("orders", 0, index).body
    except OffsetOutOfRange:
        # The changed bit is the sign of the offset: such a slot ends the queue.
        return b"" if store.queue_range("orders", 0)[1] == index else b"not named"
    except CorruptError as error:
        # The entry names no record of this queue offset.
        return b"" if f"queue offset {index}: " in str(error) else b"not named"


def test_the_doctor_heals_an_entry_with_any_flipped_bit(tmp_path: Path) -> None:
    """
    Until then a reader gets the right record or an error, never another record.
    """
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    index = draw.randrange(RECORDS - 1)
    for byte in range(ENTRY_SIZE):
        root = tmp_path / str(byte)
        file = filled(root)
        whole = file.read_bytes()
        at = index * ENTRY_SIZE + byte
        overwrite(file, at, bytes([whole[at] ^ 1 << draw.randrange(8)]))
        with Store(root, mode="r") as store:
            assert read_or_error(store, index) in (BODIES[index], b"")
        heal(root)
        with Store(root) as store:
            assert BODIES == bodies_from(store, 0)
        # A code of tags may be of another configuration: it is noted, and stays.
        assert byte >= TAGS_CODE_AT or whole == file.read_bytes()
