"""
The addresses of admin commands: lists, and servers that do not answer.
"""

from __future__ import annotations

import asyncio

from click.testing import Result
from lib.command_line import run
from lib.controller.controller_server import running

from pystore.remoting.server import RemotingServer


async def _command(*words: str) -> Result:
    return await asyncio.to_thread(run, "admin", *words)


async def _line(*words: str) -> str:
    """
    Returns the one line of a command that was refused.
    """
    result = await _command(*words)
    assert 3 == result.exit_code, result.output
    (line,) = result.stderr.splitlines()
    return line


def test_a_list_without_an_address_is_wrong_usage_of_each_command() -> None:
    """As from a variable of the shell that is not set: nothing is asked, nor done."""
    names = run("admin", "--help").stdout.split("Commands:")[1].split("Example")[0]
    for name in (line.split()[0] for line in names.strip().splitlines()):
        others = {"getBrokerEpoch": "-n", "addBroker": "-c", "removeBroker": "-c"}
        option = others.get(name, "-a")
        words = ("user", "list") if name == "user" else (name,)
        for value in ("", " ; "):
            result = run("admin", *words, option, value)
            assert 2 == result.exit_code, (name, result.output)
            assert "names no HOST:PORT" in result.stderr.splitlines()[-1], name


def test_one_controller_that_answers_is_enough() -> None:
    """The others are named by the commands that ask each."""

    async def main() -> None:
        change = ("updateControllerConfig", "-k", "notifyBrokerRoleChanged")
        async with running() as at:
            both = ("-a", f"127.0.0.1:1;{at.address}")
            shown = await _command("getControllerMetaData", *both)
            assert (0, "") == (shown.exit_code, shown.stderr)
            for words, text in (
                (("getControllerConfig",), "notifyBrokerRoleChanged"),
                ((*change, "-v", "false"), f"=false at {at.address}"),
            ):
                result = await _command(*words, *both)
                assert 3 == result.exit_code
                assert text in result.stdout
                assert 1 == len(result.stderr.splitlines())
                assert "127.0.0.1:1 cannot be reached" in result.stderr
            line = await _line("transferController", *both)
            assert "no other controller is running" in line
        line = await _line("exportSets", *both, "file")
        assert 2 == line.count("cannot be reached: Connection refused")

    asyncio.run(main())


def test_a_server_that_is_no_controller_is_named() -> None:
    """Here a broker's own port, or a name server's."""

    async def main() -> None:
        async with RemotingServer({}) as server:
            host, port = await server.start()
            line = await _line("getControllerMetaData", "-a", f"{host}:{port}")
            assert "another server listens there" in line

    asyncio.run(main())
