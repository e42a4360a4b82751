"""
Keys and certificates of the replicated part.
"""

from __future__ import annotations

import stat
from pathlib import Path

from pystore.demo.secured_set import OpenSet, SecuredSet

CONTROLLER, BROKERS = "127.0.0.1:1", ["127.0.0.1:2", "127.0.0.1:4"]


def test_each_process_gets_settings_that_name_files(tmp_path: Path) -> None:
    """Of its own folder; secrets are for their owner only."""
    made = SecuredSet(tmp_path / "secure", "demo", [CONTROLLER], BROKERS)
    for settings in (made.controller(1), made.broker(1), made.broker(2)):
        paths = [Path(str(one)) for one in settings.values() if "/" in str(one)]
        assert len(paths) >= 4
        for one in paths:
            is_secret = one.suffix in (".key", ".yml", ".sealed")
            mode = stat.S_IMODE(one.stat().st_mode)
            assert mode == (0o600 if is_secret else 0o644), one
    assert made.controller(1)["authentication"] == "enforcing"
    assert Path(made.admin_words[1]).name == "operator.yml"


def test_an_open_set_needs_nothing() -> None:
    """As before."""
    made = OpenSet()
    assert made.controller(1) == made.broker(1) == {}
    assert made.admin_words == []
