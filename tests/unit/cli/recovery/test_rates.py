"""
``pystore recovery rates`` shows and changes the rates of a host that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.broker_process import BrokerProcess, node_text
from lib.command_line import run, run_json
from lib.free_ports import free_port

HOST = """
[host]
repairBytesPerSecond = 1000000
repairLatencyMs = 20
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """
    A broker without a controller, whose configuration has rates.
    """
    text = node_text(tmp_path / "s", f"127.0.0.1:{free_port()}") + HOST
    with BrokerProcess.of(tmp_path, "s", text) as started:
        yield started


def test_rates_are_changed_at_run_time(broker: BrokerProcess) -> None:
    """
    What is not named stays.
    """
    found = run_json("recovery", "rates", "--socket", broker.path)
    names = ("repairBytesPerSecond", "serveBytesPerSecond", "repairLatencyMs")
    assert [1_000_000, 0, 20] == [found[name] for name in names]
    words = ("--in", "none", "--out", "50m", "--latency", "0")
    found = run_json("recovery", "rates", "--socket", broker.path, *words)
    assert [0, 50 << 20, 0] == [found[name] for name in names]
    shown = run("recovery", "rates", "--socket", broker.path)
    assert 0 == shown.exit_code
    for text in ("no limit", "52,428,800 bytes a second", "never", "not measured"):
        assert text in shown.stdout


@pytest.mark.parametrize("words", [("--in", "0"), ("--out", "x"), ("--latency", "-1")])
def test_wrong_limits_are_refused(words: tuple[str, str]) -> None:
    """
    Nothing is asked.
    """
    assert 2 == run("recovery", "rates", "--socket", "no", *words).exit_code
