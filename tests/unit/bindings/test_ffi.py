"""
The seam in Python agrees with the header in C.
"""

from __future__ import annotations

import errno
import re
import struct
import sys
import threading
from enum import IntEnum, IntFlag
from pathlib import Path

import numpy as np
import pytest

from pystore.bindings import ffi as seam
from pystore.bindings.ffi import (
    MESSAGE_HEAD_SIZE,
    POSITION_DTYPE,
    RECORD_DTYPE,
    Check,
    LocalAck,
    Proof,
    Scratch,
    Stop,
    borrow,
    check,
    ffi,
    give_back,
    lib,
    pointer,
    unpack_record,
)
from pystore.errors import CorruptError, InvalidError, PystoreError, StorageError
from pystore.message.form import HEAD

STATUSES = sorted(name for name in dir(lib) if name.startswith("PS_E_"))


def _error(text: str, offset: int = lib.PS_NO_OFFSET, number: int = 0) -> object:
    error = ffi.new("ps_error *")
    error.text = text.encode()
    error.offset = offset
    error.system_errno = number
    return error


@pytest.mark.parametrize("name", STATUSES)
def test_every_failure_of_the_core_is_an_exception(name: str) -> None:
    """
    Every failure status of the header has an exception class.
    """
    status = getattr(lib, name)

    with pytest.raises(PystoreError, match="the text") as raised:
        check(status, _error("the text", 7), "/store")

    assert type(raised.value) is not PystoreError
    assert 7 == raised.value.offset
    assert "/store" == raised.value.path


def test_an_error_carries_offset_errno_and_path() -> None:
    """
    A caller need not parse the text.
    """
    with pytest.raises(StorageError) as raised:
        check(lib.PS_E_IO, _error("no", number=errno.EIO), "/store")

    assert errno.EIO == raised.value.errno
    assert raised.value.offset is None
    assert isinstance(raised.value, OSError)

    with pytest.raises(StorageError) as raised:
        check(lib.PS_E_MEMORY, _error("no memory"))

    assert errno.ENOMEM == raised.value.errno
    assert raised.value.path is None


def test_a_good_status_raises_nothing_and_bad_text_is_still_text() -> None:
    """
    A path in an error may be any bytes.
    """
    check(lib.PS_OK, _error("left from before"))

    error = ffi.new("ps_error *")
    error.text = b"/st\xf6re: bad"
    with pytest.raises(CorruptError, match="/st\N{REPLACEMENT CHARACTER}re: bad"):
        check(lib.PS_E_CORRUPT, error)


@pytest.mark.parametrize(
    ("enum", "prefixes"),
    [
        (LocalAck, ("PS_ACK_",)),
        (Stop, ("PS_STOP_",)),
        (Check, ("PS_CHECK_", "PS_WANT_", "PS_NEED_", "PS_PASS_")),
        (Proof, ("PS_PROOF_", "PS_HAS_")),
    ],
)
def test_enums_are_the_constants_of_the_header(
    enum: type[IntEnum] | type[IntFlag], prefixes: tuple[str, ...]
) -> None:
    """
    Every constant has a member of the same value and name, and no other is there.
    """
    wanted = {}
    for name in dir(lib):
        for prefix in prefixes:
            if name.startswith(prefix):
                short = name.removeprefix(prefix)
                keep = prefix in ("PS_NEED_", "PS_HAS_", "PS_PASS_")
                wanted[name[3:] if keep else short] = getattr(lib, name)

    assert wanted == {member.name: int(member) for member in enum}


@pytest.mark.parametrize(
    ("dtype", "struct_name"),
    [(RECORD_DTYPE, "ps_record"), (POSITION_DTYPE, "ps_position")],
)
def test_dtypes_lie_in_memory_as_the_structs(
    dtype: np.dtype[np.void], struct_name: str
) -> None:
    """
    Same names, offsets, sizes, signs and total size, field by field.
    """
    wanted = [
        (name, field.offset, ffi.sizeof(field.type), field.type.cname[0] != "u")
        for name, field in ffi.typeof(struct_name).fields
    ]

    fields = dtype.fields
    assert fields is not None
    assert wanted == [
        (name, at, kind.itemsize, kind.kind == "i")
        for name, (kind, at, *_) in fields.items()
    ]
    assert ffi.sizeof(struct_name) == dtype.itemsize


def test_a_record_is_unpacked_by_its_dtype() -> None:
    """
    The struct format and the dtype are two spellings of one layout.
    """
    raw = bytes(range(1, RECORD_DTYPE.itemsize + 1))
    (row,) = np.frombuffer(raw, RECORD_DTYPE)

    assert row.item()[:-1] == unpack_record(raw)


def test_the_message_head_is_as_long_as_the_core_thinks() -> None:
    """
    The one size that both sides of the message form must share.
    """
    assert MESSAGE_HEAD_SIZE == HEAD.size


def test_a_scratch_is_lent_to_one_call_at_a_time() -> None:
    """
    A borrowed scratch is not borrowed again before it is given back.
    """
    first, second = borrow(), borrow()

    assert first is not second
    give_back(first)
    assert first is borrow()
    give_back(second)


def test_threads_never_share_a_scratch() -> None:
    """
    The pool is safe without a lock, because pop and append are atomic.
    """
    in_use: set[int] = set()
    shared = []

    def work() -> None:
        for _ in range(2000):
            scratch = borrow()
            if id(scratch) in in_use:
                shared.append(scratch)
            in_use.add(id(scratch))
            in_use.discard(id(scratch))
            give_back(scratch)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)

    assert [] == shared


def test_results_are_read_through_the_memory_of_their_struct() -> None:
    """
    ``*_bytes`` shows the memory that the core writes.
    """
    scratch = Scratch()
    scratch.appended.offset, scratch.appended.count = 5, 9

    shown = struct.unpack("=QQqqQ", scratch.appended_bytes)

    assert (5, 0, 0, 0, 9) == shown
    assert ffi.sizeof("ps_ends") == len(scratch.ends_bytes)
    assert ffi.sizeof("ps_record") == len(scratch.record_bytes)


def test_bytes_cross_as_they_are_and_buffers_are_borrowed() -> None:
    """
    The core gets the memory of the caller, without a copy.
    """
    data = bytearray(b"data")

    assert b"data" == pointer(b"data")
    borrowed = pointer(memoryview(data)[1:])
    data[1] = 0
    assert b"\0ta" == bytes(ffi.buffer(borrowed))


@pytest.mark.parametrize("data", ["text", 5, None, memoryview(b"abcd")[::2]])
def test_an_object_without_a_plain_buffer_is_refused(data: object) -> None:
    """
    The line names the type that was given.
    """
    with pytest.raises(InvalidError, match=rf"not {type(data).__name__}"):
        pointer(data)


def test_no_other_module_imports_the_core() -> None:
    """
    Other modules may import the names of types only.
    """
    folder = Path(seam.__file__).parent
    found = [
        path.name
        for path in sorted(folder.rglob("*.py"))
        if re.search(r"^(from|import) pystore\._core", path.read_text(), re.M)
    ]

    assert ["ffi.py"] == found
