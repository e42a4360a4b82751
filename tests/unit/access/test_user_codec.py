"""
Users and their changes, sealed.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from pystore.access.key_file import KeyFile
from pystore.access.roles import UserRole
from pystore.access.user_codec import (
    UserAction,
    UserChange,
    changed_user,
    open_change,
    open_user,
    seal_change,
    seal_user,
)
from pystore.access.users import User
from pystore.errors import FormatError, InvalidError

KEYS = KeyFile([b"k" * 32])
BROKER = frozenset({UserRole.BROKER})
USER = User("u", ("secret one", "secret two"), BROKER, is_bound=True, version=7)
CHANGE = UserChange(UserAction.ADD, "u", 1, "a secret", BROKER, is_bound=True)


def test_a_user_is_read_as_it_was_written() -> None:
    """
    A deleted one, too.
    """
    deleted = User("d", (), version=3)
    for one in (USER, deleted):
        assert one == open_user(one.name, seal_user(one, KEYS), KEYS)


def test_a_change_is_read_as_it_was_written() -> None:
    """
    Of every kind.
    """
    for action in UserAction:
        one = replace(CHANGE, action=action)
        assert one == open_change("u", seal_change(one, KEYS), KEYS)


def test_nothing_sealed_shows_a_secret() -> None:
    """
    Nor the same bytes twice.
    """
    sealed = seal_user(USER, KEYS)
    assert b"secret" not in sealed
    assert sealed != seal_user(USER, KEYS)


def test_what_was_sealed_is_opened_for_its_own_purpose_only() -> None:
    """
    A record is no change, and no record of another user.
    """
    record, change = seal_user(USER, KEYS), seal_change(CHANGE, KEYS)
    for opened in (
        lambda: open_user("v", record, KEYS),
        lambda: open_user("u", change, KEYS),
        lambda: open_change("u", record, KEYS),
        lambda: open_change("v", change, KEYS),
        lambda: open_user("u", record, KeyFile([b"x" * 32])),
    ):
        with pytest.raises(FormatError, match="sealed with another key"):
            opened()


def test_random_damage_is_refused_with_one_line() -> None:
    """
    Each byte that differs, and each shorter length.
    """
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    record = seal_user(USER, KEYS)
    for _ in range(300):
        damaged = bytearray(record)
        damaged[draw.randrange(len(record))] ^= draw.randrange(1, 256)
        cut = record[: draw.randrange(len(record))]
        for one in (bytes(damaged), cut):
            with pytest.raises(FormatError, match="the record of user u"):
                open_user("u", one, KEYS)


@pytest.mark.parametrize(
    "content",
    [[], {}, {"roles": ["king"], "secrets": [], "isBound": True, "version": 1}],
)
def test_content_of_another_version_is_refused(content: object) -> None:
    """
    Sealed with the right key, so it is none of damage.
    """
    sealed = KEYS.seal(json.dumps(content).encode(), "user u")
    with pytest.raises(FormatError, match="another content"):
        open_user("u", sealed, KEYS)
    sealed = KEYS.seal(json.dumps(content).encode(), "change of user u")
    with pytest.raises(FormatError, match="another content"):
        open_change("u", sealed, KEYS)


def test_a_user_lives_through_its_changes() -> None:
    """
    Added, rotated, retired, granted, deleted, and added again.
    """
    now = changed_user(None, CHANGE)
    assert (("a secret",), BROKER, True, 1) == (
        now.secrets,
        now.roles,
        now.is_bound,
        now.version,
    )
    rotate = UserChange(UserAction.ROTATE, "u", 2, "the next one")
    now = changed_user(now, rotate)
    assert ("the next one", "a secret") == now.secrets
    with pytest.raises(InvalidError, match="retire the old one first"):
        changed_user(now, replace(rotate, version=3))
    now = changed_user(now, UserChange(UserAction.RETIRE, "u", 3))
    assert ("the next one",) == now.secrets
    reader = frozenset({UserRole.READER})
    now = changed_user(now, UserChange(UserAction.GRANT, "u", 4, "", reader))
    assert (reader, False) == (now.roles, now.is_bound)
    now = changed_user(now, UserChange(UserAction.DELETE, "u", 5))
    assert ((), frozenset(), 5) == (now.secrets, now.roles, now.version)
    again = changed_user(now, replace(CHANGE, version=6))
    assert (("a secret",), 6) == (again.secrets, again.version)


@pytest.mark.parametrize("action", [one for one in UserAction if one.value != "add"])
def test_what_does_not_exist_cannot_be_changed(action: UserAction) -> None:
    """
    Neither an unknown user nor a deleted one.
    """
    change = replace(CHANGE, action=action)
    for user in (None, User("u", ())):
        with pytest.raises(InvalidError, match="there is no user u"):
            changed_user(user, change)


@pytest.mark.parametrize(
    ("user", "change", "reason"),
    [
        (USER, CHANGE, "exists already"),
        (None, replace(CHANGE, secret=""), "needs a secret and a role"),
        (None, replace(CHANGE, roles=frozenset()), "needs a secret and a role"),
        (USER, UserChange(UserAction.ROTATE, "u", 8), "needs another secret"),
        (USER, UserChange(UserAction.GRANT, "u", 8), "needs a role"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(
    user: User | None, change: UserChange, reason: str
) -> None:
    """
    With the reason.
    """
    with pytest.raises(InvalidError, match=reason):
        changed_user(user, change)


def test_a_secret_is_in_no_text_of_a_change() -> None:
    """
    As in a traceback.
    """
    assert "a secret" not in repr(CHANGE)
