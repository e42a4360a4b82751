"""
What a user may be.
"""

from __future__ import annotations

import pytest

from pystore.access.users import User, check_user_name
from pystore.errors import InvalidError


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "a/b", "é", "a\n", "../x"])
def test_a_name_is_one_that_keys_and_lines_can_have(name: str) -> None:
    """
    It stands in record keys and in lines for people.
    """
    with pytest.raises(InvalidError, match="1 to 64 letters"):
        check_user_name(name)


@pytest.mark.parametrize(
    "secret", ["", "short", "a" * 129, "with\nnewline", "nul\0lies"]
)
def test_a_bad_secret_is_refused_and_not_shown(secret: str) -> None:
    """
    The message names the user only.
    """
    with pytest.raises(InvalidError, match="a secret of user u") as raised:
        User("u", (secret,))
    assert not secret or secret not in str(raised.value)


def test_a_user_has_two_secrets_at_most() -> None:
    """
    A third would be forgotten.
    """
    with pytest.raises(InvalidError, match="retire the old one"):
        User("u", ("secret one", "secret two", "secret three"))


def test_a_secret_is_in_no_text_of_a_user() -> None:
    """
    As in a traceback.
    """
    assert "hidden thing" not in repr(User("u", ("hidden thing",)))
