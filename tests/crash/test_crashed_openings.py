"""
Crashes in an opening that follows a crash, and in openings that mend.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from crash.check import check_store
from crash.disk import Disk
from crash.facts import Facts
from crash.note_writer import SEGMENT_SIZE
from crash.proof import SEED, STATES, Proof

from pystore.epochs.file import encode_epochs, read_epochs
from pystore.errors import CorruptError
from pystore.fs.layout import ABORT, EPOCH_FILE, EPOCH_FILE_BACKUP
from pystore.store.commit_log import CommitLog

STORIES = [
    ("some", "append"),
    ("some", "roll"),
    ("segments", "cut"),
    ("segments", "retention"),
    ("queues", "queues"),
]


@pytest.mark.parametrize(("before", "workload"), STORIES)
def test_a_crash_in_the_opening_after_a_kill_is_like_any_other(
    proof: Proof, before: str, workload: str
) -> None:
    """A process was killed anywhere; then the next one crashes anywhere."""
    print(f"seed {SEED}")
    proof.prepare(before)
    killed = proof.record(workload, kill_after=random.Random(SEED).randrange(20, 200))
    proof.take(killed)
    child = proof.record("again")
    assert 0 == child.code, child.output
    proof.look(child, STATES // 4)


@pytest.mark.parametrize(("before", "workload"), STORIES)
def test_a_crash_in_the_opening_after_a_power_cut_is_like_any_other(
    proof: Proof, before: str, workload: str
) -> None:
    """The same, but the machine stopped amid the first process."""
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    proof.prepare(before)
    child = proof.record(workload)
    proof.cut_power(child, draw)
    child = proof.record("again")
    assert 0 == child.code, child.output
    proof.look(child, STATES // 4)


def test_bytes_of_a_failed_sync_are_not_trusted_after_a_kill(proof: Proof) -> None:
    """
    A12: EIO once, SIGKILL, reopen, power cut: what was acknowledged before is there,
    and what the next process found was written again.
    """
    proof.prepare("some")
    killed = proof.record("poison")
    assert (-9, "PoisonedError\n") == (killed.code, killed.output)
    proof.take(killed)
    child = proof.record("again")
    assert 0 == child.code, child.output
    proof.look(child)


def _refusal(root: Path) -> int | None:
    """The offset of the damage that forbids an opening."""
    try:
        with CommitLog(root):
            return None
    except CorruptError as error:
        # The answer.
        return error.offset


def test_a_crash_while_a_loss_is_accepted_loses_nothing_more(proof: Proof) -> None:
    """
    A6: before the crash promised bytes are bad; then they are saved and cut.
    """
    proof.prepare("segments")
    damaged = sorted(proof.facts.records)[30]
    base = damaged - damaged % SEGMENT_SIZE
    segment = proof.store / "commitlog" / f"{base:020}"
    content = bytearray(segment.read_bytes())
    content[damaged - base + 120] ^= 1
    segment.write_bytes(content)
    (proof.store / ABORT).write_bytes(b"")  # so that the clean mark does not hold
    proof.disk = Disk(proof.folder)
    whole = {at: raw for at, raw in proof.facts.records.items() if at < damaged}
    lost = b"".join(p.read_bytes() for p in sorted(segment.parent.iterdir()))[damaged:]
    proof.facts.records = whole
    child = proof.record("loss")
    assert 0 == child.code, child.output

    def check(root: Path, facts: Facts, is_power_cut: bool) -> None:
        saved = root.with_name(f"{root.name}.lost-{damaged:020}")
        refused = _refusal(root)
        assert refused in (None, damaged)
        if refused is not None:
            # Nothing was decided yet: it can be accepted again.
            assert facts.deed in ("", "open")
            if saved.exists():
                shutil.rmtree(saved)
            with CommitLog(root, accept_loss=True):
                pass
        parts = sorted(saved.iterdir())
        assert [damaged] == [int(part.name) for part in parts][:1]
        for part in parts:
            at = int(part.name) - damaged
            data = part.read_bytes()
            assert lost[at : at + len(data)] == data
        check_store(root, facts, is_power_cut, is_foreign=True, has_loss=True)

    proof.look(child, check=check)


def test_a_crash_while_another_programs_store_is_taken_over(proof: Proof) -> None:
    """A14: there is no ``meta/`` yet, or all of it, and every record is there."""
    proof.prepare("segments")
    shutil.rmtree(proof.store / "meta")
    proof.disk = Disk(proof.folder)
    child = proof.record("again")
    assert 0 == child.code, child.output

    def check(root: Path, facts: Facts, is_power_cut: bool) -> None:
        check_store(root, facts, is_power_cut, is_foreign=True)

    proof.look(child, check=check)


def test_a_crash_while_imported_epochs_cut_the_log(proof: Proof) -> None:
    """A10: another program cut the log; its table decides, before and after a crash."""
    proof.prepare("segments")
    path = proof.store / EPOCH_FILE
    found = read_epochs(path.read_bytes(), None, str(path))
    assert found is not None
    *kept, last = found.table.entries
    path.write_bytes(encode_epochs(type(found.table)(tuple(kept))))
    assert not (proof.store / EPOCH_FILE_BACKUP).exists()
    proof.disk = Disk(proof.folder)
    child = proof.record("again")
    assert 0 == child.code, child.output
    proof.facts.cut = last.start_offset

    def check(root: Path, facts: Facts, is_power_cut: bool) -> None:
        if not facts.metadata or facts.deed == "open":
            facts.metadata = {}
        check_store(root, facts, is_power_cut, is_foreign=True)

    proof.look(child, check=check)
