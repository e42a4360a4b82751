"""
Users: their secrets and roles. Pure.

A user has two secrets while one replaces the other: processes take the new one at
different times, and none is refused meanwhile.

Source: docs/security.md, *Users*.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pystore.access.roles import UserRole
from pystore.errors import InvalidError

__all__ = ["CONTROLLER_USER", "SECRET_CHARS_MIN", "User", "check_user_name"]

SECRET_CHARS_MIN = 8
"""The shortest secret: RocketMQ's limit is 7."""

_SECRETS_MAX = 2
_CHARS_MAX = 128
_is_name = re.compile(r"[A-Za-z0-9._@-]{1,64}").fullmatch


CONTROLLER_USER = "pystore-controller"
"""The user of the controllers themselves, with a secret of the key file."""


def check_user_name(name: str) -> None:
    """
    Raises:
        InvalidError: it is not the name of a user.
    """
    if not _is_name(name):
        raise InvalidError("the name of a user has 1 to 64 letters, digits and . _ @ -")
    if name == CONTROLLER_USER:
        raise InvalidError(f"{name} is the user of the controllers themselves")


@dataclass(frozen=True, slots=True)
class User:
    """
    One user.

    Attributes:
        name: its access key.
        secrets: its secret keys, the newest first; none: the user was deleted.
        roles: what it may do.
        is_bound: its requests are bound to their connection, as those of pystore are,
            so a repeated one is refused. Java's peers cannot do that.
        version: one more with each change.

    Raises:
        InvalidError: a name or a secret that no request can carry, or too many secrets.
    """

    name: str
    secrets: tuple[str, ...] = field(repr=False)
    roles: frozenset[UserRole] = frozenset()
    is_bound: bool = False
    version: int = 1

    def __post_init__(self) -> None:
        if self.name != CONTROLLER_USER:
            check_user_name(self.name)
        if len(self.secrets) > _SECRETS_MAX:
            raise InvalidError(
                f"user {self.name} has two secrets already: retire the old one first"
            )
        for one in self.secrets:
            if not SECRET_CHARS_MIN <= len(one) <= _CHARS_MAX or not one.isprintable():
                # The secret itself is in no text.
                raise InvalidError(
                    f"a secret of user {self.name} is not printable, or has not "
                    f"{SECRET_CHARS_MIN} to {_CHARS_MAX} characters"
                )
