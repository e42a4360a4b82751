"""
The types of the C core, made from its headers by csrc/stub.py.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

CData: TypeAlias = Any

class FFI:
    NULL: Final[CData]
    errno: int
    error: type[Exception]
    def addressof(self, cdata: CData, *fields: str | int) -> CData: ...
    def release(self, cdata: CData) -> None: ...
    def buffer(self, cdata: CData, size: int = ...) -> CData: ...
    def cast(self, cdecl: str, value: CData) -> CData: ...
    def from_buffer(
        self, cdecl: str, python_buffer: object, require_writable: bool = ...
    ) -> CData: ...
    def gc(
        self, cdata: CData, destructor: Callable[[CData], object], size: int = ...
    ) -> CData: ...
    def memmove(self, dest: CData, src: CData, n: int) -> None: ...
    def new(self, cdecl: str, init: object = ...) -> CData: ...
    def sizeof(self, cdecl: str | CData) -> int: ...
    def string(self, cdata: CData, maxlen: int = ...) -> bytes: ...
    def typeof(self, cdecl: str | CData) -> CData: ...
    def unpack(self, cdata: CData, length: int) -> CData: ...

class Lib:
    PS_OK: Final[int]
    PS_E_INVALID: Final[int]
    PS_E_IO: Final[int]
    PS_E_FULL: Final[int]
    PS_E_CORRUPT: Final[int]
    PS_E_RANGE: Final[int]
    PS_E_BUSY: Final[int]
    PS_E_FENCED: Final[int]
    PS_E_POISONED: Final[int]
    PS_E_CLOSED: Final[int]
    PS_E_FORKED: Final[int]
    PS_E_LOCKED: Final[int]
    PS_E_MEMORY: Final[int]
    PS_E_CUT: Final[int]
    PS_E_NOT_STORE: Final[int]
    PS_E_SPACE: Final[int]
    PS_NO_OFFSET: Final[int]
    PS_NO_TOPIC: Final[int]
    PS_PROOF_BODY: Final[int]
    PS_PROOF_PROPERTY: Final[int]
    PS_HAS_PROPERTY: Final[int]
    PS_PROOF_DIFFERS: Final[int]
    PS_CHECK_BODY: Final[int]
    PS_CHECK_PROPERTY: Final[int]
    PS_CHECK_OFFSET: Final[int]
    PS_CHECK_FIELDS: Final[int]
    PS_WANT_TAGS: Final[int]
    PS_WANT_TOPIC: Final[int]
    PS_NEED_PROPERTY: Final[int]
    PS_CHECK_ONCE: Final[int]
    PS_PASS_COPIED: Final[int]
    PS_STOP_ROWS: Final[int]
    PS_STOP_LIMIT: Final[int]
    PS_STOP_ZERO: Final[int]
    PS_STOP_LAST: Final[int]
    PS_STOP_SIZE: Final[int]
    PS_STOP_MAGIC: Final[int]
    PS_STOP_LENGTHS: Final[int]
    PS_STOP_BODY: Final[int]
    PS_STOP_PROPERTY: Final[int]
    PS_STOP_OFFSET: Final[int]
    PS_STOP_FIELDS: Final[int]
    PS_STOP_STALE: Final[int]
    PS_STOP_UNREADABLE: Final[int]
    PS_STOP_BLANK: Final[int]
    PS_MESSAGE_HEAD: Final[int]
    PS_ACK_LEADER: Final[int]
    PS_ACK_SYNCED: Final[int]
    PS_ACK_SHARED: Final[int]
    PS_MODE_READ: Final[int]
    PS_MODE_WRITE: Final[int]
    PS_COLUMN_SLACK: Final[int]
    PS_HOST_BORN: Final[int]
    PS_HOST_STORE: Final[int]
    PS_JSON_BODIES: Final[int]
    PS_DATA_HEAD: Final[int]
    PS_FRAME_HEADER: Final[int]
    PS_WAITS_MARKS: Final[int]
    PS_WAIT_REACHED: Final[int]
    PS_WAIT_EXPIRED: Final[int]
    PS_WAIT_ENDED: Final[int]
    PS_MODE_READ_ILL: Final[int]
    PS_TRANSFER_ACK_BYTES: Final[int]
    PS_FAR_BEHIND: Final[int]
    PS_TRANSFER_ACK_POISONED: Final[int]
    def ps_record_check(
        self,
        data: CData,
        size: int,
        offset: int,
        checks: int,
        record: CData,
        error: CData,
    ) -> int: ...
    def ps_records_property(
        self,
        data: CData,
        size: int,
        offset: int,
        rows: CData,
        count: int,
        name: CData,
        at: CData,
        sizes: CData,
        error: CData,
    ) -> int: ...
    def ps_records_move(
        self,
        data: CData,
        size: int,
        offset: int,
        from_: CData,
        to: CData,
        count: int,
        buffer: CData,
        capacity: int,
        rows: CData,
        error: CData,
    ) -> int: ...
    def ps_live_create(self, path: CData, error: CData) -> int: ...
    def ps_live_open(
        self, path: CData, writable: int, live: CData, error: CData
    ) -> int: ...
    def ps_live_unclaim(self, live: CData) -> None: ...
    def ps_live_close(self, live: CData) -> None: ...
    def ps_live_read(self, live: CData, words: CData) -> None: ...
    def ps_live_begin(self, live: CData, words: CData, error: CData) -> int: ...
    def ps_log_open(
        self, root: CData, options: CData, live: CData, log: CData, error: CData
    ) -> int: ...
    def ps_log_start(self, log: CData, start: CData, error: CData) -> int: ...
    def ps_log_limit(self, log: CData, end: int, error: CData) -> int: ...
    def ps_log_close(self, log: CData, error: CData) -> int: ...
    def ps_log_free(self, log: CData) -> None: ...
    def ps_forked(self) -> None: ...
    def ps_log_append(
        self,
        log: CData,
        messages: CData,
        size: int,
        ack: int,
        positions: CData,
        capacity: int,
        appended: CData,
        error: CData,
    ) -> int: ...
    def ps_log_append_columns(
        self,
        log: CData,
        columns: CData,
        ack: int,
        positions: CData,
        capacity: int,
        appended: CData,
        error: CData,
    ) -> int: ...
    def ps_log_append_client_batch(
        self,
        log: CData,
        route: CData,
        batch: CData,
        size: int,
        ack: int,
        positions: CData,
        capacity: int,
        appended: CData,
        error: CData,
    ) -> int: ...
    def ps_log_append_raw(
        self,
        log: CData,
        offset: int,
        data: CData,
        size: int,
        received: CData,
        error: CData,
    ) -> int: ...
    def ps_log_roll(self, log: CData, error: CData) -> int: ...
    def ps_log_sync(self, log: CData, end: int, error: CData) -> int: ...
    def ps_log_authority(
        self, log: CData, epoch: int, boottime_ns: int, wall_ms: int, error: CData
    ) -> int: ...
    def ps_log_confirm(self, log: CData, offset: int, error: CData) -> int: ...
    def ps_log_ends(self, log: CData, ends: CData, error: CData) -> int: ...
    def ps_log_segments(
        self, log: CData, bases: CData, capacity: int, count: CData, error: CData
    ) -> int: ...
    def ps_log_stranded(
        self, log: CData, bases: CData, capacity: int, count: CData, error: CData
    ) -> int: ...
    def ps_log_scan(
        self,
        log: CData,
        cursor: CData,
        rows: CData,
        capacity: int,
        count: CData,
        error: CData,
    ) -> int: ...
    def ps_log_resync(
        self, log: CData, offset: int, limit: int, found: CData, error: CData
    ) -> int: ...
    def ps_log_populate(
        self, log: CData, offset: int, size: CData, error: CData
    ) -> int: ...
    def ps_log_read(
        self,
        log: CData,
        offset: int,
        checks: int,
        buffer: CData,
        capacity: int,
        size: CData,
        record: CData,
        error: CData,
    ) -> int: ...
    def ps_log_read_entry(
        self,
        log: CData,
        file: int,
        at: int,
        checks: int,
        buffer: CData,
        capacity: int,
        size: CData,
        record: CData,
        error: CData,
    ) -> int: ...
    def ps_block_acquire(
        self, log: CData, offset: int, size_max: int, block: CData, error: CData
    ) -> int: ...
    def ps_block_release(self, block: CData) -> None: ...
    def ps_log_unchanged(
        self, log: CData, generation: int, end: int, error: CData
    ) -> int: ...
    def ps_log_topic(
        self,
        log: CData,
        topic_id: int,
        buffer: CData,
        capacity: int,
        size: CData,
        error: CData,
    ) -> int: ...
    def ps_log_queues_load(
        self, log: CData, queues: CData, size: int, error: CData
    ) -> int: ...
    def ps_log_queues_note(
        self, log: CData, rows: CData, count: int, error: CData
    ) -> int: ...
    def ps_log_queues_reset(self, log: CData, error: CData) -> int: ...
    def ps_log_queues_fill(
        self,
        log: CData,
        changed: int,
        buffer: CData,
        capacity: int,
        size: CData,
        end: CData,
        error: CData,
    ) -> int: ...
    def ps_log_cut_begin(self, log: CData, offset: int, error: CData) -> int: ...
    def ps_log_cut_publish(self, log: CData, generation: int, error: CData) -> int: ...
    def ps_log_cut_apply(self, log: CData, report: CData, error: CData) -> int: ...
    def ps_log_cut_end(self, log: CData, is_done: int, error: CData) -> int: ...
    def ps_log_delete_before(
        self, log: CData, offset: int, removed: CData, error: CData
    ) -> int: ...
    def ps_log_begin_at(self, log: CData, base: int, error: CData) -> int: ...
    def ps_rows_measure(self, rows: CData, sizes: CData, error: CData) -> int: ...
    def ps_rows_bodies(self, rows: CData, bodies: CData, error: CData) -> int: ...
    def ps_rows_hosts(
        self, rows: CData, which: int, hosts: CData, error: CData
    ) -> int: ...
    def ps_rows_ids(self, rows: CData, ids: CData, error: CData) -> int: ...
    def ps_rows_properties(self, rows: CData, columns: CData, error: CData) -> int: ...
    def ps_rows_json(
        self, rows: CData, options: int, left_flags: int, lines: CData, error: CData
    ) -> int: ...
    def ps_frames_scan(
        self,
        data: CData,
        size: int,
        frame_bytes_max: int,
        check_crc: int,
        frames: CData,
        frames_max: int,
        count: CData,
        taken: CData,
        error: CData,
    ) -> int: ...
    def ps_waiters_open(
        self, marks: int, one_by_one: int, waits: CData, error: CData
    ) -> int: ...
    def ps_waiters_raise(
        self, waits: CData, mark: int, offset: int, error: CData
    ) -> int: ...
    def ps_waiters_wait(
        self,
        waits: CData,
        mark: int,
        end: int,
        timeout_ns: int,
        outcome: CData,
        error: CData,
    ) -> int: ...
    def ps_waiters_notify(self, waits: CData, mark: int, error: CData) -> int: ...
    def ps_waiters_advance(self, waits: CData, mark: int, error: CData) -> int: ...
    def ps_waiters_append(
        self,
        waits: CData,
        mark: int,
        timeout_ns: int,
        log: CData,
        messages: CData,
        size: int,
        appended: CData,
        outcome: CData,
        error: CData,
    ) -> int: ...
    def ps_log_append_no_wake(
        self, log: CData, messages: CData, size: int, appended: CData, error: CData
    ) -> int: ...
    def ps_log_notify(self, log: CData, waiters: CData, error: CData) -> int: ...
    def ps_waiters_mark(self, waits: CData, mark: int) -> int: ...
    def ps_waiters_word(self, waits: CData, mark: int) -> CData: ...
    def ps_waiters_waiting(self, waits: CData) -> int: ...
    def ps_waiters_end(self, waits: CData) -> None: ...
    def ps_waiters_hold(self, waits: CData) -> None: ...
    def ps_waiters_free(self, waits: CData) -> None: ...
    def ps_receive(
        self, file: int, buffer: CData, size: int, is_waiting: int, spin: CData
    ) -> int: ...
    def ps_lock_acquire(self, path: CData, lock: CData, error: CData) -> int: ...
    def ps_lock_check(self, lock: CData, error: CData) -> int: ...
    def ps_lock_holder(self, path: CData, pid: CData, error: CData) -> int: ...
    def ps_lock_release(self, lock: CData) -> None: ...
    def ps_lock_hold(self, lock: CData) -> None: ...
    def ps_lock_drop(self, lock: CData) -> None: ...
    def ps_log_guard(
        self, log: CData, lock: CData, temporary: CData, error: CData
    ) -> int: ...
    def ps_log_check_guard(self, log: CData, error: CData) -> int: ...
    def ps_log_undo(self, log: CData, cut_offset: CData, error: CData) -> int: ...
    def ps_log_hold(self, log: CData, end: CData, error: CData) -> int: ...
    def ps_log_clock(
        self, log: CData, is_accepted: int, state: CData, error: CData
    ) -> int: ...
    def ps_log_install(self, log: CData, base: int, error: CData) -> int: ...
    def ps_file_writeback(self, file: int, at: int, size: int) -> None: ...
    def ps_log_ill(
        self, log: CData, from_: int, offset: CData, end: CData, error: CData
    ) -> int: ...
    def ps_log_await(self, log: CData, seen: CData, error: CData) -> int: ...
    def ps_log_copy(
        self,
        log: CData,
        offset: int,
        size_max: int,
        buffer: CData,
        copied: CData,
        error: CData,
    ) -> int: ...
    def ps_log_append_frame(
        self,
        log: CData,
        data: CData,
        size: int,
        step: CData,
        ends: CData,
        taken: CData,
        error: CData,
    ) -> int: ...

ffi: FFI
lib: Lib
