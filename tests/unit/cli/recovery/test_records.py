"""
How a command of AutoRecovery names its record store, and what all of them have.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lib.command_line import run

from pystore.cli.recovery import recovery

COMMANDS = sorted(set(recovery._places) - {"daemon", "mend", "serve"})
CHANGING = {
    *("delay", "disable", "enable", "first", "forget", "kick", "maintenance"),
    *("decommission", "pause", "replace", "resume", "retry", "settings"),
}


def test_the_store_is_named_by_a_directory_or_a_file(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The option overrides the file; both may be in the environment.
    """
    toml = tmp_path / "controller.toml"
    toml.write_text(f'store = "{empty}"\nlisten = "127.0.0.1:9878"\n')
    java = tmp_path / "controller.properties"
    java.write_text(f"controllerStorePath={empty}\nlistenPort=9878\n")
    other = tmp_path / "other.toml"
    other.write_text('zookeeper = "127.0.0.1:1"\n')
    list_words = ("recovery", "list")
    for words in (
        ("--records", empty),
        ("-c", toml),
        ("--config", java),
        ("-c", other, "--records", empty),
    ):
        assert 0 == run(*list_words, *words).exit_code
    monkeypatch.setenv("PYSTORE_RECORDS", str(empty))
    assert 0 == run(*list_words).exit_code
    monkeypatch.delenv("PYSTORE_RECORDS")
    monkeypatch.setenv("PYSTORE_CONTROLLER_CONFIG", str(toml))
    assert 0 == run(*list_words).exit_code


def test_without_a_record_store_the_usage_is_wrong(tmp_path: Path) -> None:
    """
    The line says how to name one.
    """
    result = run("recovery", "status")
    assert 2 == result.exit_code
    assert "--records DIR or HOST:PORT" in result.stderr
    config = tmp_path / "c.toml"
    config.write_text("zookeeperTls = true\n")
    words = ("--records", "127.0.0.1:1", "-c", config)
    result = run("recovery", "status", *words)
    assert 2 == result.exit_code
    assert "zookeeperTls needs tlsAuthorities" in result.stderr


def test_what_is_no_record_store_is_not_made_one(tmp_path: Path) -> None:
    """
    A misspelt directory would look like an empty queue.
    """
    missing = tmp_path / "missing"
    for path in (missing, tmp_path):
        result = run("recovery", "status", "--records", path)
        assert 3 == result.exit_code
        assert f"pystore: {path}: there is no record store" in result.stderr
    assert not missing.exists()
    assert [] == list(tmp_path.iterdir())


def test_servers_that_do_not_answer_are_named() -> None:
    """
    One line.
    """
    result = run("recovery", "status", "--records", "127.0.0.1:1")
    assert 3 == result.exit_code
    assert re.fullmatch("pystore: 127.0.0.1:1: .*\n", result.stderr)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_json(name: str) -> None:
    """
    And those that change something a dry run.
    """
    text = run("recovery", name, "--help").stdout
    assert f"  pystore recovery {name} " in text.replace("\n", " ")
    assert "--json" in text
    assert (name in CHANGING) == ("--dry-run" in text)


def test_the_names_of_bookkeeper_are_not_listed_twice() -> None:
    """
    The last lines of the help name them.
    """
    text = run("recovery", "--help").stdout
    commands = text.split("Commands:")[1].split("Example")[0]
    assert len(recovery._places) == len(commands.strip().splitlines())
    for name in recovery._aliases:
        assert name in text.split("BookKeeper's names")[1]
