"""
The users of a record store, as one controller knows them.

Each user is one record, sealed with the key file. The leader changes them; the other
controllers read them at intervals, and each new leader at its begin.

Source: docs/security.md, *Users*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pystore.access.cluster_files import initial_changes
from pystore.access.key_file import KeyFile
from pystore.access.roles import UserRole
from pystore.access.user_codec import (
    UserChange,
    changed_user,
    open_change,
    open_user,
    seal_user,
)
from pystore.access.users import CONTROLLER_USER, User
from pystore.controller.server.record_keys import USERS, USERS_CHANGED, user_key
from pystore.errors import FormatError, InvalidError, PystoreError, UnavailableError
from pystore.records.ops import ABSENT, CheckVersion, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord
from pystore.records.term import Term
from pystore.remoting.signature import Credentials

__all__ = ["USERS_MAX", "StaleChange", "UserRecords"]

USERS_MAX = 1_000
"""Users of one record store, deleted ones included."""


class StaleChange(InvalidError):
    """
    A change was made for another version of a user.

    Args:
        name: of the user.
        version: its present version.
    """

    def __init__(self, name: str, version: int) -> None:
        super().__init__(f"user {name} was changed meanwhile: it has version {version}")
        self.version = version


class UserRecords:
    """
    One controller's users. `read` and `change` block; any thread.

    Args:
        key_file: the path of the key file; empty: there is none, and no user.
        say: receives one line for people about each record that cannot be opened; any
            thread.

    Attributes:
        now: the users by name, deleted ones left out; ``None``: not read yet.

    Raises:
        InvalidError: the key file is none, or others may read it.
        OSError: it cannot be read.
    """

    def __init__(self, key_file: str, say: Callable[[str], object] = bool) -> None:
        self._path = Path(key_file) if key_file else None
        self._keys = None if self._path is None else KeyFile.read(self._path)
        self._say = say
        self._said: set[str] = set()
        self._seen = ABSENT
        self._content = b""
        self.now: Mapping[str, User] | None = None

    def read(self, store: RecordStore) -> None:
        """
        Reads the users, and the key file again.

        Raises:
            PystoreError: the store cannot be read.
        """
        before, keys = self._content, self._read_keys()
        if keys is None:
            self.now = {}
            return
        changed = store.get(USERS_CHANGED)
        seen = ABSENT if changed is None else changed.version
        if self.now is not None and seen == self._seen and before == self._content:
            # To list them costs as much as all records have names.
            return
        self._seen = seen
        found = {}
        for record in store.scan(USERS):
            name = record.key.removeprefix(USERS)
            try:
                user = _opened(name, record, keys)
            except FormatError as error:
                # The other users are what they are; this one is refused.
                self._say_once(str(error))
                continue
            if user.secrets:
                found[name] = user
        found[CONTROLLER_USER] = _controllers(keys)
        self.now = found

    @property
    def keys(self) -> KeyFile | None:
        """
        The key file as it was read last; ``None``: there is none.
        """
        return self._keys

    def own(self) -> Credentials | None:
        """
        Returns the credentials of the controllers; ``None``: there is no key file.
        """
        if self._keys is None:
            return None
        return Credentials(CONTROLLER_USER, _controllers(self._keys).secrets[0])

    def begin(self, store: RecordStore, term: Term, path: str) -> None:
        """
        Adds the users of a new cluster that have no record; one that was deleted since
        has one.

        Args:
            store: the record store.
            term: of this controller, which leads.
            path: of the file with the sealed users.

        Raises:
            FormatError: the file is another one, or was sealed with another key.
            OSError: it cannot be read.
            PystoreError: the store refuses.
        """
        text = Path(path).read_text("ascii", "replace")
        for name, sealed in list(initial_changes(text, path)):
            if store.get(user_key(name)) is None:
                self.change(store, term, name, sealed)

    def change(
        self,
        store: RecordStore,
        term: Term,
        name: str,
        sealed: bytes,
        beside: Callable[[User | None, User], list[Op]] = lambda _, __: [],
    ) -> User:
        """
        Changes one user.

        Args:
            store: the record store.
            term: of this controller, which leads.
            name: of the user.
            sealed: `pystore.access.user_codec.seal_change`.
            beside: returns what else is committed with the change, from the user before
                it and after it.

        Raises:
            InvalidError: there is no key file, or the change does not fit the user.
            FormatError: the key file of the sender is another one.
            PystoreError: the store refuses.
        """
        keys = self._read_keys()
        if keys is None:
            raise InvalidError("this controller has no key file: see keyFile")
        change = open_change(name, sealed, keys)
        record = store.get(user_key(name))
        user = None if record is None else _opened(name, record, keys)
        after = _after(user, change)
        if record is None and len(store.scan(USERS)) >= USERS_MAX:
            raise InvalidError(f"there are {USERS_MAX} users, deleted ones included")
        version = ABSENT if record is None else record.version
        ops: list[Op] = [
            term.check,
            CheckVersion(user_key(name), version),
            Put(user_key(name), seal_user(after, keys)),
            Put(USERS_CHANGED, name.encode()),
            *beside(user, after),
        ]
        if store.commit(ops) is None:
            raise UnavailableError(f"user {name} was changed at this moment; try again")
        others = {**(self.now or {})}
        others.pop(name, None)
        self.now = {**others, name: after} if after.secrets else others
        return after

    def _read_keys(self) -> KeyFile | None:
        if self._path is None:
            return None
        try:
            self._keys = KeyFile.read(self._path)
            self._content = self._path.read_bytes()
        except (OSError, PystoreError, UnicodeDecodeError) as error:
            # It is being replaced: the keys before go on.
            self._say_once(f"the keys read before stay in use: {error}")
        return self._keys

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)


def _controllers(keys: KeyFile) -> User:
    secrets = tuple(keys.secrets(CONTROLLER_USER)[:2])
    return User(CONTROLLER_USER, secrets, frozenset(UserRole), is_bound=True)


def _after(user: User | None, change: UserChange) -> User:
    version = 0 if user is None else user.version
    if change.version != version + 1:
        raise StaleChange(change.name, version)
    return changed_user(user, change)


def _opened(name: str, record: StoredRecord, keys: KeyFile) -> User:
    if record.damage:
        raise FormatError(f"the record of user {name} is damaged: {record.damage}")
    return open_user(name, record.value, keys)
