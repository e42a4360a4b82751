"""
``pystore recovery serve`` serves a store to repairs, and listens to other machines only
with certificates.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lib.certificates import Authority
from lib.command_line import PYSTORE, overwrite, run, run_json, segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """
    A sealed store.
    """
    fill(tmp_path / "good")
    seal(tmp_path / "good")
    return tmp_path / "good"


@pytest.fixture
def bad(good: Path) -> Path:
    """
    A copy with a bad block.
    """
    bad = good.parent / "bad"
    follow_from(good, bad, 0)
    overwrite(segment_file(bad, SEGMENT), 700, b"????")
    return bad


@contextmanager
def serving(*words: str | Path) -> Iterator[str]:
    """
    The command as a process; yields its address.
    """
    child = subprocess.Popen(
        [*PYSTORE, "recovery", "serve", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline().rstrip("\n")
        assert line.startswith(f"pystore recovery serves {words[0]} on "), line
        yield line.rpartition(" ")[2]
        child.send_signal(signal.SIGTERM)
        assert 0 == child.wait(30)
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def test_a_store_is_mended_from_a_peer(good: Path, bad: Path) -> None:
    """
    By its address in place of a directory.
    """
    with serving(good) as address:
        found = run_json("recovery", "mend", bad, "--from", address)
    assert [(SEGMENT, [address], True)] == [
        (one["segment"], one["from"], one["isDone"]) for one in found["steps"]
    ]
    assert 0 == run("verify", bad).exit_code


def test_a_peer_with_a_certificate_is_served_over_tls(
    good: Path, bad: Path, tmp_path: Path
) -> None:
    """
    Another one is refused, and the store stays as it was.
    """
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    own, own_key = authority.issue("client")
    tls = ("--tls-certificate", certificate, "--tls-key", key)
    with serving(good, *tls, "--tls-authorities", authority.path) as address:
        mend = ("recovery", "mend", bad, "--from", address)
        for words in ((), ("--tls-authorities", authority.path)):
            refused = run(*mend, *words)
            assert 3 == refused.exit_code, refused.output
            assert 1 == len(refused.stderr.splitlines())
        shown = ("--tls-certificate", own, "--tls-key", own_key)
        done = run(*mend, *shown, "--tls-authorities", authority.path)
        assert 0 == done.exit_code, done.output
    assert 0 == run("verify", bad).exit_code


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--listen", "0.0.0.0:0"), "without --tls-certificate and --tls-key and"),
        (("--tls-key", "x"), "give --tls-certificate and --tls-authorities, too"),
        (("--listen", "nowhere"), "nowhere"),
    ],
)
def test_a_reachable_port_needs_certificates(
    good: Path, words: tuple[str, ...], text: str
) -> None:
    """
    And half of them are none.
    """
    result = run("recovery", "serve", good, *words)
    assert result.exit_code in (2, 3)
    assert text in result.stderr.replace("\n", " ")


def test_what_is_no_store_is_not_served(tmp_path: Path) -> None:
    """
    The error is that of every command.
    """
    result = run("recovery", "serve", tmp_path)
    assert 3 == result.exit_code
    assert "not a store" in result.stderr
