"""
Users and their changes as bytes, sealed with the key file of the cluster. Pure.

An operator's command seals a change, and a controller opens it: so a secret is never
sent in the clear, and only who has the key file can change users.

Source: docs/security.md, *Users*.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pystore.access.key_file import KeyFile
from pystore.access.roles import UserRole
from pystore.access.users import User
from pystore.errors import FormatError, InvalidError

__all__ = [
    "UserAction",
    "UserChange",
    "changed_user",
    "open_change",
    "open_user",
    "seal_change",
    "seal_user",
]


class UserAction(Enum):
    """
    What a change does.
    """

    ADD = "add"
    """Makes a user with a secret."""

    ROTATE = "rotate"
    """Adds another secret, the newest; the one before stays valid."""

    RETIRE = "retire"
    """Ends the secret before the newest."""

    GRANT = "grant"
    """Gives it other roles."""

    DELETE = "delete"
    """Ends the user."""


@dataclass(frozen=True, slots=True)
class UserChange:
    """
    One change of one user.

    Attributes:
        action: what it does.
        name: of the user.
        version: of the user after it: a change that was sent before is refused.
        secret: of `UserAction.ADD` and `UserAction.ROTATE`.
        roles: of `UserAction.ADD` and `UserAction.GRANT`.
        is_bound: of the same.
    """

    action: UserAction
    name: str
    version: int
    secret: str = field(default="", repr=False)
    roles: frozenset[UserRole] = frozenset()
    is_bound: bool = False


def changed_user(user: User | None, change: UserChange) -> User:
    """
    Returns the user after a change.

    Args:
        user: before it; ``None``: there is none.
        change: of its next version.

    Raises:
        InvalidError: the change does not fit the user.
    """
    name, secret = change.name, change.secret
    exists = user is not None and bool(user.secrets)
    if change.action is UserAction.ADD:
        if exists:
            raise InvalidError(f"user {name} exists already")
        if not secret or not change.roles:
            raise InvalidError(f"user {name} needs a secret and a role")
        return User(name, (secret,), change.roles, change.is_bound, change.version)
    if user is None or not exists:
        raise InvalidError(f"there is no user {name}")
    now = replace(user, version=change.version)
    match change.action:
        case UserAction.ROTATE:
            if not secret:
                raise InvalidError(f"user {name} needs another secret")
            return replace(now, secrets=(secret, *user.secrets))
        case UserAction.RETIRE:
            return replace(now, secrets=user.secrets[:1])
        case UserAction.GRANT:
            if not change.roles:
                raise InvalidError(f"user {name} needs a role: delete it instead")
            return replace(now, roles=change.roles, is_bound=change.is_bound)
        case UserAction.DELETE:
            # Its version stays, so that an old change makes no new user.
            return replace(now, secrets=(), roles=frozenset())


def seal_user(user: User, keys: KeyFile) -> bytes:
    """
    Returns the record of a user.
    """
    content = {
        "name": user.name,
        "secrets": list(user.secrets),
        "roles": _names(user.roles),
        "isBound": user.is_bound,
        "version": user.version,
    }
    return keys.seal(_encoded(content), f"user {user.name}")


def open_user(name: str, record: bytes, keys: KeyFile) -> User:
    """
    Returns the user of a record.

    Raises:
        FormatError: the key file does not open it.
    """
    with_name = f"the record of user {name}"
    found = _opened(record, f"user {name}", keys, with_name)
    try:
        roles, secrets = _roles(found["roles"]), tuple(map(_text, found["secrets"]))
        return User(name, secrets, roles, bool(found["isBound"]), int(found["version"]))
    except (InvalidError, KeyError, TypeError, ValueError) as error:
        # Sealed by another version of pystore. The content is in no text.
        raise FormatError(f"{with_name} has another content") from error


def seal_change(change: UserChange, keys: KeyFile) -> bytes:
    """
    Returns what is sent to a controller.
    """
    content = {
        "action": change.action.value,
        "version": change.version,
        "secret": change.secret,
        "roles": _names(change.roles),
        "isBound": change.is_bound,
    }
    return keys.seal(_encoded(content), f"change of user {change.name}")


def open_change(name: str, sealed: bytes, keys: KeyFile) -> UserChange:
    """
    Returns what was sent to a controller.

    Raises:
        FormatError: the key file of the sender is another one.
    """
    with_name = f"the change of user {name}"
    found = _opened(sealed, f"change of user {name}", keys, with_name)
    try:
        return UserChange(
            UserAction(found["action"]),
            name,
            int(found["version"]),
            _text(found["secret"]),
            _roles(found["roles"]),
            bool(found["isBound"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        # Sealed by another version of pystore. The content is in no text.
        raise FormatError(f"{with_name} has another content") from error


def _opened(
    sealed: bytes, purpose: str, keys: KeyFile, with_name: str
) -> Mapping[str, Any]:
    try:
        found = json.loads(keys.open(sealed, purpose))
    except FormatError as error:
        raise FormatError(f"{with_name} cannot be opened: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"{with_name} has another content")
    return found


def _encoded(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _names(roles: frozenset[UserRole]) -> list[str]:
    return sorted(one.value for one in roles)


def _roles(found: object) -> frozenset[UserRole]:
    if not isinstance(found, list):
        raise TypeError("roles are a list")
    return frozenset(map(UserRole, found))


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError("a secret is a text")
    return found
