"""
The group of all commands, which ends each of them with an exit code.

A command returns its exit code. An error of pystore or of the system becomes one line
on stderr; only a defect of the program shows a traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from pystore.cli.lib.exit_codes import (
    DONE,
    INTERRUPTED,
    PIPE_CLOSED,
    UNFINISHED,
    error_line,
)
from pystore.errors import PystoreError

__all__ = ["CommandGroup", "StorePath", "StoreText", "json_option", "store_argument"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def json_option(command: _Function) -> _Function:
    """
    Adds ``--json`` to a command, as its argument ``as_json``.
    """
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object instead."
    )(command)


def store_argument(command: _Function) -> _Function:
    """
    Adds the store directory to a command, as its argument ``store``.
    """
    return click.argument("store", type=StorePath())(command)


class StorePath(click.Path):
    """
    A path that is not empty: an unset variable must not mean the current directory.

    Args:
        options: those of `click.Path`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        # A path that this user may not read is no wrong usage: the command says so.
        super().__init__(path_type=Path, readable=False, **options)

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """
        Returns the path.
        """
        if not os.fspath(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class StoreText(click.types.StringParamType):
    """
    As `StorePath`, for a pattern of paths.
    """

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """
        Returns the pattern.
        """
        if not value:
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class CommandGroup(click.Group):
    """
    A group whose commands return exit codes. Only the command that runs is imported,
    which keeps the start short.

    Args:
        places: ``module:command`` by the command's name.
        aliases: a command's name by another one, which is not listed.
        options: those of `click.Group`.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401
        places: Mapping[str, str] | None = None,
        aliases: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*arguments, **options)
        self._places = dict(places or {})
        self._aliases = dict(aliases or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """
        Returns the sorted names of all commands.
        """
        return sorted({*super().list_commands(ctx), *self._places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """
        Returns the command with this name, or ``None``.
        """
        place = self._places.get(self._aliases.get(cmd_name, cmd_name))
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place.partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def main(self, *arguments: Any, **options: Any) -> NoReturn:  # noqa: ANN401
        """
        Runs the command that the arguments name, then ends the process.
        """
        options["standalone_mode"] = False
        if sys.stdout is None:
            # The shell closed it: `>&-`.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                # Names may have bytes that are no UTF-8; they are printed as in JSON.
                stream.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*arguments, **options)
        except click.ClickException as error:
            # Mostly wrong usage: click prints what is wrong and how to do it.
            error.show()
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            # Ctrl-C in a command that does not handle it.
            click.echo("pystore: interrupted", err=True)
            sys.exit(INTERRUPTED)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> int:
        """
        Runs a command and returns its exit code.
        """
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except (PystoreError, OSError) as error:
            # The user can do something about these.
            return _report(error)
        return DONE if code is None else int(code)


def _report(error: PystoreError | OSError) -> int:
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        # Python flushes stdout at exit: without this, the error would come again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    click.echo(f"pystore: {error_line(error)}", err=True)
    return UNFINISHED
