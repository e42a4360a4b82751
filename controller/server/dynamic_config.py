"""
The settings of a controller, with the changes of administrators while it runs.

The changes are one record, so they apply to every controller and survive restarts
(RMQ-R235). RocketMQ changes only one node. Where a change differs from what file or
command line of a controller give, it says so at each start, and `GET_CONTROLLER_CONFIG`
shows it. A controller that was told to elect no unclean master elects none, whatever
the record says: acknowledged records would be at stake.

Source: formats 4.11; RMQ-R235, RMQ-R257.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pystore.controller.server.config import (
    ControllerConfig,
    properties_text,
    shown,
)
from pystore.controller.server.record_keys import SETTINGS, SETTINGS_BY
from pystore.errors import InvalidError, UnavailableError
from pystore.records.ops import ABSENT, CheckVersion, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord
from pystore.rocketmq.properties_file import parse_properties_text

__all__ = ["DynamicConfig"]

_TRIES = 5
_STRICT = "enableElectUncleanMaster"
_GUARD = "authentication"


class DynamicConfig:
    """
    One controller's settings. `read` and `change` block; any thread.

    Args:
        own: from file and command line.
        say: receives one line for people about each unusable setting; any thread.

    Attributes:
        now: the settings with the changes that were read last.
        differences: one line for each change that file or command line contradict.
        unfit: why this controller must not lead: it cannot verify requests, and the
            others do; empty: it may.
    """

    def __init__(
        self, own: ControllerConfig, say: Callable[[str], object] = bool
    ) -> None:
        self._say = say
        self._said: set[str] = set()
        self.now = own
        self._own = own
        self.differences: list[str] = []
        self.unfit = ""

    def read(self, store: RecordStore) -> None:
        """
        Reads the changes of administrators.

        Raises:
            PystoreError: the store cannot be read.
        """
        self._take(_texts(store.get(SETTINGS)), _authors(store.get(SETTINGS_BY)))

    def change(
        self,
        store: RecordStore,
        texts: Mapping[str, str],
        author: str = "",
        beside: Sequence[Op] = (),
    ) -> list[str]:
        """
        Changes settings for every controller.

        Args:
            store: the record store.
            texts: the new values, by name.
            author: who asked and when, for people.
            beside: what else is committed with the change.

        Returns:
            those of `differences` that are about these settings.

        Raises:
            InvalidError: an unknown setting, a fixed setting, or an invalid value.
            PystoreError: the store refuses.
        """
        self._own.with_texts(texts, is_running=True)
        for _ in range(_TRIES):
            record = store.get(SETTINGS)
            changed = _texts(record) | dict(texts)
            version = ABSENT if record is None else record.version
            authors = _authors(store.get(SETTINGS_BY)) | dict.fromkeys(texts, author)
            ops: list[Op] = [
                CheckVersion(SETTINGS, version),
                Put(SETTINGS, properties_text(changed).encode()),
                Put(SETTINGS_BY, properties_text(authors).encode()),
                *beside,
            ]
            if store.commit(ops):
                self._take(changed, authors)
                return [
                    one
                    for one in self.differences
                    if one.partition("=")[0].rpartition(" ")[2] in texts
                ]
        raise UnavailableError(
            "other administrators change the settings at the same time; try again"
        )

    def _take(self, texts: dict[str, str], authors: Mapping[str, str]) -> None:
        now, own = self._own, shown(self._own)
        differences, unfit = [], ""
        for name, text in texts.items():
            try:
                changed = now.with_texts({name: text}, is_running=True)
            except InvalidError as error:
                # A controller of another version wrote it: the others hold.
                line = f"the setting {name}={text} has no effect here: {error}"
                self._say_once(line)
                if name == _GUARD:
                    unfit = line
                continue
            is_given = name in own and name in self._own.given
            if not is_given or shown(changed)[name] == own[name]:
                now = changed
                continue
            author = authors.get(name) or "an administrator"
            line = f"the setting {name}={text}, changed by {author}, "
            if name == _STRICT and not self._own.enable_elect_unclean_master:
                line += f"has no effect here: the configuration says {own[name]}"
            else:
                now = changed
                line += f"holds, though the configuration says {own[name]}"
            differences.append(line)
        for line in differences:
            self._say_once(line)
        self.differences, self.now, self.unfit = differences, now, unfit

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)


def _texts(record: StoredRecord | None) -> dict[str, str]:
    if record is None:
        return {}
    return parse_properties_text(record.value.decode(errors="replace"), SETTINGS)


def _authors(record: StoredRecord | None) -> dict[str, str]:
    if record is None or record.damage:
        return {}
    return parse_properties_text(record.value.decode(errors="replace"), SETTINGS_BY)
