"""
The users of a record store.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from pystore.access.key_file import KeyFile, new_key
from pystore.access.roles import UserRole
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.access.users import CONTROLLER_USER
from pystore.controller.server.record_keys import USERS_CHANGED, user_key
from pystore.controller.server.user_records import StaleChange, UserRecords
from pystore.errors import FormatError, InvalidError, UnavailableError
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put
from pystore.records.record_store import RecordStore
from pystore.records.term import Term

BROKER = frozenset({UserRole.BROKER})
ADD = UserChange(UserAction.ADD, "u", 1, "a secret", BROKER)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """
    A key file.
    """
    path = tmp_path / "cluster.key"
    path.write_text(new_key())
    path.chmod(0o600)
    return path


@pytest.fixture
def store() -> MemoryStore:
    """
    An empty record store.
    """
    return MemoryStore(MemorySpace())


def names(records: UserRecords) -> list[str]:
    """
    The users that an operator added.
    """
    return [one for one in records.now or {} if one != CONTROLLER_USER]


def lead(store: MemoryStore) -> Term:
    """
    A term of this store.
    """
    return store.campaign("controller/leader", "here")


def test_a_change_reaches_every_controller(key_file: Path, store: MemoryStore) -> None:
    """
    The leader at once, the others with their next look.
    """
    keys, term = KeyFile.read(key_file), lead(store)
    leader, other = UserRecords(str(key_file)), UserRecords(str(key_file))
    assert [None, None] == [one.now for one in (leader, other)]
    for one in (leader, other):
        one.read(store)
        assert [] == names(one)
    leader.change(store, term, "u", seal_change(ADD, keys))
    assert ("a secret",) == (leader.now or {})["u"].secrets
    other.read(store)
    assert leader.now == other.now
    delete = UserChange(UserAction.DELETE, "u", 2)
    leader.change(store, term, "u", seal_change(delete, keys))
    other.read(store)
    assert [[], []] == [names(leader), names(other)]


def test_a_change_is_carried_out_once(key_file: Path, store: MemoryStore) -> None:
    """
    Sent again it is stale, also after the user was deleted; it tells the version.
    """
    keys, term = KeyFile.read(key_file), lead(store)
    records = UserRecords(str(key_file))
    add = seal_change(ADD, keys)
    records.change(store, term, "u", add)
    with pytest.raises(StaleChange) as raised:
        records.change(store, term, "u", add)
    assert 1 == raised.value.version
    delete = UserChange(UserAction.DELETE, "u", 2)
    records.change(store, term, "u", seal_change(delete, keys))
    with pytest.raises(StaleChange) as raised:
        records.change(store, term, "u", add)
    assert 2 == raised.value.version


def test_a_controller_that_does_not_lead_any_more_changes_nothing(
    key_file: Path,
) -> None:
    """
    Its term is checked in the commit.
    """
    space = MemorySpace()
    former, later = MemoryStore(space), MemoryStore(space)
    term = lead(former)
    former.close()
    lead(later)
    keys, records = KeyFile.read(key_file), UserRecords(str(key_file))
    with pytest.raises(UnavailableError, match="changed at this moment"):
        records.change(later, term, "u", seal_change(ADD, keys))
    assert later.get(user_key("u")) is None


def test_a_change_sealed_with_another_key_is_refused(
    key_file: Path, store: MemoryStore
) -> None:
    """
    Only who has the key file changes users.
    """
    stranger = KeyFile([b"x" * 32])
    records = UserRecords(str(key_file))
    with pytest.raises(FormatError, match="sealed with another key"):
        records.change(store, lead(store), "u", seal_change(ADD, stranger))


def test_a_damaged_record_refuses_its_own_user_only(
    key_file: Path, store: MemoryStore
) -> None:
    """
    It is said once.
    """
    said: list[str] = []
    keys, term = KeyFile.read(key_file), lead(store)
    records = UserRecords(str(key_file), said.append)
    records.change(store, term, "u", seal_change(ADD, keys))
    store.commit([Put(user_key("v"), b"rubbish"), Put(USERS_CHANGED, b"v")])
    for _ in range(3):
        records.read(store)
    assert ["u"] == names(records)
    (line,) = said
    assert "the record of user v cannot be opened" in line


def test_a_key_file_is_read_again_and_a_bad_one_changes_nothing(
    key_file: Path, store: MemoryStore
) -> None:
    """
    So a key is replaced without a restart.
    """
    said: list[str] = []
    term, old = lead(store), key_file.read_text()
    records = UserRecords(str(key_file), said.append)
    records.change(store, term, "u", seal_change(ADD, KeyFile.read(key_file)))
    key_file.write_text("half a")
    records.read(store)
    assert ["u"] == names(records)
    assert "the keys read before stay in use" in said[0]
    key_file.write_text(f"{new_key()}\n{old}")
    rotate = UserChange(UserAction.ROTATE, "u", 2, "the next one")
    records.change(store, term, "u", seal_change(rotate, KeyFile.read(key_file)))
    key_file.write_text(key_file.read_text().split("\n", maxsplit=1)[0])
    records.read(store)
    assert ("the next one", "a secret") == (records.now or {})["u"].secrets


def test_without_a_key_file_there_are_no_users(store: MemoryStore) -> None:
    """
    And none can be added.
    """
    records = UserRecords("")
    records.read(store)
    assert {} == records.now
    with pytest.raises(InvalidError, match="no key file"):
        records.change(store, lead(store), "u", b"")


def test_a_key_file_that_others_may_read_ends_the_start(key_file: Path) -> None:
    """
    Before the controller listens.
    """
    key_file.chmod(0o644)
    with pytest.raises(InvalidError, match="chmod 600"):
        UserRecords(str(key_file))


def test_the_controllers_have_a_user_of_their_own(
    key_file: Path, store: MemoryStore
) -> None:
    """
    Its secret is the same for all who have the key file, and valid while a key is
    replaced.
    """
    one, other = UserRecords(str(key_file)), UserRecords(str(key_file))
    one.read(store)
    own = other.own()
    assert own is not None
    known = (one.now or {})[CONTROLLER_USER]
    assert own.secret_key == known.secrets[0]
    assert known.is_bound
    key_file.write_text(f"{new_key()}\n{key_file.read_text()}")
    one.read(store)
    assert own.secret_key == (one.now or {})[CONTROLLER_USER].secrets[1]
    add = UserChange(UserAction.ADD, CONTROLLER_USER, 1, "a secret", BROKER)
    sealed = seal_change(add, KeyFile.read(key_file))
    with pytest.raises(InvalidError, match="the user of the controllers"):
        one.change(store, lead(store), CONTROLLER_USER, sealed)
    assert UserRecords("").own() is None


def test_users_that_did_not_change_are_not_listed_again(
    key_file: Path, store: MemoryStore
) -> None:
    """
    A list of names is long where there are many sets.
    """
    keys, term = KeyFile.read(key_file), lead(store)
    records = UserRecords(str(key_file))
    records.read(store)
    scans = 0

    class Counting:
        def get(self, key: str) -> object:
            return store.get(key)

        def scan(self, prefix: str) -> object:
            nonlocal scans
            scans += 1
            return store.scan(prefix)

    counting = cast("RecordStore", Counting())
    for _ in range(3):
        records.read(counting)
    assert 0 == scans
    UserRecords(str(key_file)).change(store, term, "u", seal_change(ADD, keys))
    for _ in range(3):
        records.read(counting)
    assert 1 == scans
    assert ["u"] == names(records)
