"""
``pystore admin user``: the users that may send requests.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from pystore.access.credentials import CredentialsFile, credentials_text
from pystore.access.key_file import KeyFile, new_key
from pystore.access.roles import UserRole
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.access.users import check_user_name
from pystore.cli.admin.client import ControllerRefusal, addresses_option, ask_leader
from pystore.cli.lib.exit_codes import DONE
from pystore.cli.lib.group import CommandGroup, json_option
from pystore.cli.lib.output import echo_json, table_text
from pystore.errors import InvalidError
from pystore.remoting.codes import RequestCode
from pystore.remoting.fields import decode_fields
from pystore.remoting.operator_headers import ChangeUserRequest, ChangeUserResponse
from pystore.remoting.signature import Credentials

__all__ = ["user"]

_F = TypeVar("_F", bound=Callable[..., Any])
_SECRET_BYTES = 24
_TRIES = 5
_OWNER_ONLY = 0o600

_controllers = addresses_option(
    "-a",
    "--controllerAddress",
    "controllers",
    help_text="Controllers; the first one that knows the leader is enough.",
)
_name = click.argument("name")
_key_file = click.option(
    "--key-file",
    "key_file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="PYSTORE_KEY_FILE",
    metavar="FILE",
    help="The key file of the cluster, the same as the controllers' keyFile.",
)
_roles = click.option(
    "--role",
    "roles",
    required=True,
    multiple=True,
    type=click.Choice([one.value for one in UserRole]),
    help="What it may do; may be given again.",
)
_bound = click.option(
    "--bound",
    "is_bound",
    is_flag=True,
    help="Refuse requests that could be sent again: pystore's are bound to their "
    "connection, RocketMQ's are not.",
)


def _secret_options(command: _F) -> _F:
    command = click.option(
        "--out",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Make a secret, and write it to this new file of credentials.",
    )(command)
    return click.option(
        "--from",
        "given",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Take the secret of this file of credentials, such as a tools.yml.",
    )(command)


@click.group(
    cls=CommandGroup,
    short_help="Add and change users.",
    epilog="""\b
Example: the key file, then an operator
  pystore admin user newKey cluster.key
  pystore admin user add alice --role operator --out alice.yml \\
      --key-file cluster.key -a 127.0.0.1:9878
""",
)
def user() -> None:
    """
    Add and change users. A secret is printed nowhere, and sent sealed with the key
    file.
    """


@user.command(
    "newKey",
    short_help="Make a key file, or add a key to it.",
    epilog="\b\nExample:\n  pystore admin user newKey cluster.key\n",
)
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def make_key(path: Path) -> int:
    """
    Make a key file that only its owner can read. Of an existing file the new key
    becomes the first, which seals; the others go on opening what they sealed.
    """
    old = ""
    if path.exists():
        KeyFile.read(path)
        old = path.read_text("utf-8")
    new = path.with_name(f"{path.name}.new")
    _write(new, f"{new_key()}\n{old}")
    new.replace(path)
    click.echo(f"{path}: copy it to each controller, and name it there as keyFile")
    return DONE


@user.command(
    short_help="Add a user.",
    epilog="\b\nExample: the brokers of a cluster\n  pystore admin user add brokers "
    "--role broker --out brokers.yml \\\n      --key-file cluster.key "
    "-a 127.0.0.1:9878\n",
)
@_name
@_controllers
@_key_file
@_roles
@_bound
@_secret_options
def add(
    name: str,
    *,
    controllers: tuple[str, ...],
    key_file: Path,
    roles: tuple[str, ...],
    is_bound: bool,
    out: Path | None,
    given: Path | None,
) -> int:
    """
    Add a user with one or more roles: brokers register and take part in their set,
    operators decide over sets and controllers, readers only ask.
    """
    granted = frozenset(map(UserRole, roles))
    change = UserChange(UserAction.ADD, name, 1, "", granted, is_bound)
    _with_secret(controllers, key_file, change, out=out, given=given)
    return DONE


@user.command(
    short_help="Give a user another secret; the present one stays valid.",
    epilog="\b\nExample:\n  pystore admin user rotate brokers --out brokers.new.yml "
    "\\\n      --key-file cluster.key -a 127.0.0.1:9878\n",
)
@_name
@_controllers
@_key_file
@_secret_options
def rotate(
    name: str,
    *,
    controllers: tuple[str, ...],
    key_file: Path,
    out: Path | None,
    given: Path | None,
) -> int:
    """
    Add another secret. Replace the file of credentials everywhere: it is read again
    without a restart. Then retire the former secret.
    """
    change = UserChange(UserAction.ROTATE, name, 1)
    _with_secret(controllers, key_file, change, out=out, given=given)
    return DONE


@user.command(
    short_help="End the former secret of a user.",
    epilog="\b\nExample:\n  pystore admin user retire brokers "
    "--key-file cluster.key -a 127.0.0.1:9878\n",
)
@_name
@_controllers
@_key_file
def retire(name: str, *, controllers: tuple[str, ...], key_file: Path) -> int:
    """
    End the secret before the newest: requests that it signed are refused from now on.
    """
    _change(controllers, key_file, UserChange(UserAction.RETIRE, name, 1))
    return DONE


@user.command(
    short_help="Give a user other roles.",
    epilog="\b\nExample:\n  pystore admin user grant alice --role reader "
    "--key-file cluster.key -a 127.0.0.1:9878\n",
)
@_name
@_controllers
@_key_file
@_roles
@_bound
def grant(
    name: str,
    *,
    controllers: tuple[str, ...],
    key_file: Path,
    roles: tuple[str, ...],
    is_bound: bool,
) -> int:
    """
    Replace the roles of a user.
    """
    granted = frozenset(map(UserRole, roles))
    change = UserChange(UserAction.GRANT, name, 1, "", granted, is_bound)
    _change(controllers, key_file, change)
    return DONE


@user.command(
    short_help="Delete a user.",
    epilog="\b\nExample:\n  pystore admin user delete alice "
    "--key-file cluster.key -a 127.0.0.1:9878\n",
)
@_name
@_controllers
@_key_file
def delete(name: str, *, controllers: tuple[str, ...], key_file: Path) -> int:
    """
    Delete a user: all its requests are refused from now on.
    """
    _change(controllers, key_file, UserChange(UserAction.DELETE, name, 1))
    return DONE


@user.command(
    "list",
    short_help="List users and their roles.",
    epilog="\b\nExample:\n  pystore admin user list -a 127.0.0.1:9878\n",
)
@_controllers
@json_option
def list_users(controllers: tuple[str, ...], *, as_json: bool) -> int:
    """
    Print names, roles, and how many secrets are valid.
    """
    found = json.loads(ask_leader(controllers, RequestCode.LIST_USERS).body)
    if as_json:
        echo_json(found)
        return DONE
    rows = (
        (
            one["name"],
            ", ".join(one["roles"]),
            str(one["secrets"]),
            "yes" if one["bound"] else "no",
            str(one["version"]),
        )
        for one in found["users"]
    )
    click.echo(table_text(("user", "roles", "secrets", "bound", "version"), rows))
    return DONE


def _with_secret(
    controllers: tuple[str, ...],
    key_file: Path,
    change: UserChange,
    *,
    out: Path | None,
    given: Path | None,
) -> None:
    """
    Changes a user with a secret that is made or given. A made one is in its file before
    the controllers have it, so it cannot be lost.
    """
    name = change.name
    if (out is None) == (given is None):
        raise click.UsageError("give --out FILE for a new secret, or --from FILE")
    check_user_name(name)
    if given is not None:
        own = CredentialsFile(given).now()
        if own.access_key != name:
            raise InvalidError(f"{given} has the secret of {own.access_key}")
        secret = own.secret_key
    else:
        secret = secrets.token_urlsafe(_SECRET_BYTES)
    if out is not None:
        _write(out, credentials_text(Credentials(name, secret)))
    try:
        _change(controllers, key_file, replace(change, secret=secret))
    except ControllerRefusal:
        # The secret is not one of the user's: its file would mislead.
        if out is not None:
            out.unlink()
        raise


def _change(controllers: tuple[str, ...], key_file: Path, change: UserChange) -> None:
    keys = KeyFile.read(key_file)
    check_user_name(change.name)
    for _ in range(_TRIES):
        try:
            ask_leader(
                controllers,
                RequestCode.CHANGE_USER,
                ChangeUserRequest(change.name),
                seal_change(change, keys),
            )
        except ControllerRefusal as error:
            # It tells the present version to who has the key file.
            if "version" not in error.fields:
                raise
            told = decode_fields(ChangeUserResponse, error.fields)
            change = replace(change, version=told.version + 1)
        else:
            click.echo(f"user {change.name}: done")
            return
    raise InvalidError(f"user {change.name} is changed by others at once; try again")


def _write(path: Path, text: str) -> None:
    """
    Writes a new file that only its owner can read.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, _OWNER_ONLY), "w") as file:
        file.write(text)
