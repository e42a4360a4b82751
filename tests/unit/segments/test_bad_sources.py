"""
Sources that lie, stall, are cut, or prove different bytes: nothing wrong is written.
"""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import overwrite, segment_file
from lib.meddled_copy import MeddledCopy
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Store
from pystore.segments.copy import LogCopy
from pystore.segments.mend_plan import MendAction, plan_mending
from pystore.segments.mending import MendProgress, mend_closed
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_protocol import decode_message, encode_message, facts_json
from pystore.segments.store_copy import StoreCopy
from pystore.verify import verify_store

SendBlock = Callable[[socket.socket, bytes], object]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """
    A sealed store.
    """
    fill(tmp_path / "good")
    seal(tmp_path / "good")
    return tmp_path / "good"


@pytest.fixture(params=["bit", "missing", "late"])
def bad(request: pytest.FixtureRequest, good: Path, tmp_path: Path) -> Path:
    """
    A copy that needs one segment: a block of it, all of it, or the one below its log.
    """
    root = tmp_path / "bad"
    follow_from(good, root, 2 * SEGMENT if request.param == "late" else 0)
    if request.param == "bit":
        overwrite(segment_file(root, SEGMENT), 700, b"????")
    if request.param == "missing":
        segment_file(root, SEGMENT).unlink()
    return root


@contextmanager
def peer(root: Path, send_block: SendBlock) -> Iterator[PeerCopy]:
    """
    A peer that tells what a store has, and sends blocks in a way of its own.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    channel, _ = listener.accept()
                except OSError:
                    # Closed: the test is over.
                    return
                with channel, suppress(OSError):
                    answer_all(StoreCopy(root), channel, send_block)

        thread = threading.Thread(target=serve)
        thread.start()
        with closing(PeerCopy(f"127.0.0.1:{listener.getsockname()[1]}")) as copy:
            yield copy
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def answer_all(here: StoreCopy, channel: socket.socket, send_block: SendBlock) -> None:
    """
    Answers the requests of one connection.
    """
    while head := channel.recv(4, socket.MSG_WAITALL):
        size = int.from_bytes(head, "big")
        asked = decode_message(channel.recv(size, socket.MSG_WAITALL))
        answer: dict[str, Any] = {}
        match asked["request"]:
            case "describe":
                answer = facts_json(here.facts)
            case "stat":
                known = here.seal(asked["segment"])
                text = known and base64.b64encode(known.encode()).decode()
                answer = {"problem": "", "seal": text}
            case "digests":
                found = here.digests(asked["segment"], asked["blocks"])
                answer = {"digests": list(found.values())}
            case "damaged":
                answer = {"blocks": []}
            case "block":
                data = here.block(asked["segment"], asked["block"])
                channel.sendall(encode_message({"bytes": len(data)}))
                send_block(channel, data)
                continue
        channel.sendall(encode_message(answer))


def lie(channel: socket.socket, data: bytes) -> None:
    """
    Sends a block with one other bit.
    """
    channel.sendall(data[:700] + bytes([data[700] ^ 4]) + data[701:])


def check_unchanged(bad: Path, before: dict[str, bytes]) -> None:
    """
    Checks that a log has the files that it had.
    """
    assert before == files(bad)


def files(root: Path) -> dict[str, bytes]:
    """
    The files of a log, but for the one that takes appends.
    """
    paths = sorted((root / "commitlog").iterdir())[:-1]
    return {one.name: one.read_bytes() for one in paths}


def check_whole(bad: Path) -> None:
    """
    Checks that a store is whole, every record with its entry.
    """
    report = verify_store(bad)
    assert ("whole", 0) == (report.verdict, report.queues.missing)


def test_a_source_that_lies_changes_nothing(good: Path, bad: Path) -> None:
    """
    Its digests and its seal are right, and the bytes that it sends are not: alone it is
    named, with another source the segment is repaired.
    """
    before = files(bad)
    with peer(good, lie) as liar:
        found = mend_closed(bad, [liar], bad.parent / "kept")
        assert [] == found.done
        (left,) = found.unmended
        assert f"{liar.name}: its block 0 is bad now" in left.refusals[0]
        check_unchanged(bad, before)
        done = mend_closed(bad, [liar, StoreCopy(good)], bad.parent / "kept").done
    assert SEGMENT == done[0].base
    check_whole(bad)


@pytest.mark.parametrize("drips", [False, True])
def test_a_source_that_stalls_is_followed_by_the_next_one(
    good: Path, bad: Path, drips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    In the middle of a block, or with a byte now and then: there is one time for all of
    an answer.
    """
    over = threading.Event()

    def stall(channel: socket.socket, data: bytes) -> None:
        channel.sendall(data[:100])
        while not over.wait(0.05):
            if drips:
                channel.sendall(b"x")

    with peer(good, stall) as slow:
        progress = MendProgress()
        real = progress.begin

        def begin(plan: Any) -> None:
            # Only blocks are late; the machine of a test may be, too.
            monkeypatch.setattr("pystore.segments.peer_copy._ANSWER_S", 0.5)
            assert slow._channel is not None
            slow._channel.settimeout(0.5)
            real(plan)

        monkeypatch.setattr(MendProgress, "begin", lambda _, plan: begin(plan))
        sources: list[LogCopy] = [slow, StoreCopy(good)]
        done = mend_closed(bad, sources, bad.parent / "kept", progress=progress).done
        over.set()
    assert SEGMENT == done[0].base
    check_whole(bad)


@pytest.mark.parametrize("within", [0, 5])
def test_a_source_whose_log_is_cut_gives_nothing_of_it(
    good: Path, bad: Path, tmp_path: Path, within: int
) -> None:
    """
    It is cut below the segment, or within it, after it was looked at.
    """
    third, before = tmp_path / "third", files(bad)
    follow_from(good, third, 0)
    with Store(third) as cut:
        starts = [int(row["offset"]) for rows in cut.log.scan() for row in rows]
        at = [one for one in starts if one >= SEGMENT][within]
        source = MeddledCopy(third)
        source.meddle = lambda: cut.cut(at)
        found = mend_closed(bad, [source], tmp_path / "kept")
        assert [] == found.done
        assert [SEGMENT] == [one.base for one in found.unmended]
    check_unchanged(bad, before)
    mend_closed(bad, [source, StoreCopy(good)], tmp_path / "kept")
    check_whole(bad)


@pytest.mark.parametrize("has_seals", [True, False])
@pytest.mark.parametrize("kind", ["missing", "late"])
def test_sources_that_prove_different_bytes_give_none(
    good: Path, tmp_path: Path, kind: str, has_seals: bool
) -> None:
    """
    Nothing here says which of them is right, whichever is named first: both are told.
    One alone, as an operator chooses it, repairs; so does the own seal.
    """
    other, bad = tmp_path / "other", tmp_path / "bad"
    fill(other, first=5)
    follow_from(good, bad, 2 * SEGMENT if kind == "late" else 0)
    seals = [root / "meta" / "seals" for root in (good, other, bad)]
    if has_seals:
        seal(other)
        seals = seals[2:]
    for folder in seals:
        for one in folder.glob("*"):
            one.unlink()
    if kind == "missing":
        segment_file(bad, SEGMENT).unlink()
    before, kept = files(bad), tmp_path / "kept"
    for names in ((good, other), (other, good)):
        sources = [StoreCopy(one) for one in names]
        found = mend_closed(bad, sources, kept, SEGMENT)
        assert [] == found.done
        (left,) = found.unmended
        assert left.reason.endswith("the other copies differ: name the right one alone")
        first, second = names
        assert (f"{second}: its block 0 differs from that of {first}",) == left.refusals
        check_unchanged(bad, before)
    done = mend_closed(bad, [StoreCopy(good)], kept).done
    assert SEGMENT in {one.base for one in done}
    check_whole(bad)


def test_the_own_seal_decides_between_sources(good: Path, tmp_path: Path) -> None:
    """
    It tells which bytes were here.
    """
    other, bad = tmp_path / "other", tmp_path / "bad"
    fill(other, first=5)
    seal(other)
    follow_from(good, bad, 0)
    segment_file(bad, SEGMENT).unlink()
    sources = [StoreCopy(other), StoreCopy(good)]
    (step,) = plan_mending(StoreCopy(bad), sources, SEGMENT).steps
    assert MendAction.INSTALL is step.action
    assert (str(good),) == tuple(one.name for one in step.sources)
