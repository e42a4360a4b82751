"""
The settings of a controller, with the changes of administrators while it runs.

The changes are one record, so they apply to every controller and survive restarts
(RMQ-R235). RocketMQ changes only one node.

Source: formats 4.11; RMQ-R235, RMQ-R257.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pystore.controller.server.config import (
    ControllerConfig,
    properties_text,
)
from pystore.controller.server.record_keys import SETTINGS
from pystore.errors import InvalidError, UnavailableError
from pystore.records.ops import ABSENT, CheckVersion, Put
from pystore.records.record_store import RecordStore, StoredRecord
from pystore.rocketmq.properties_file import parse_properties_text

__all__ = ["DynamicConfig"]

_TRIES = 5


class DynamicConfig:
    """
    One controller's settings. `read` and `change` block; any thread.

    Args:
        own: from file and command line.
        say: receives one line for people about each unusable setting; any thread.

    Attributes:
        now: the settings with the changes that were read last.
    """

    def __init__(
        self, own: ControllerConfig, say: Callable[[str], object] = bool
    ) -> None:
        self._say = say
        self._said: set[str] = set()
        self.now = own
        self._own = own

    def read(self, store: RecordStore) -> None:
        """
        Reads the changes of administrators.

        Raises:
            PystoreError: the store cannot be read.
        """
        self._take(_texts(store.get(SETTINGS)))

    def change(self, store: RecordStore, texts: Mapping[str, str]) -> None:
        """
        Changes settings for every controller.

        Raises:
            InvalidError: an unknown setting, a fixed setting, or an invalid value.
            PystoreError: the store refuses.
        """
        self._own.with_texts(texts, is_running=True)
        for _ in range(_TRIES):
            record = store.get(SETTINGS)
            changed = _texts(record) | dict(texts)
            version = ABSENT if record is None else record.version
            value = properties_text(changed).encode()
            if store.commit([CheckVersion(SETTINGS, version), Put(SETTINGS, value)]):
                self._take(changed)
                return
        raise UnavailableError(
            "other administrators change the settings at the same time; try again"
        )

    def _take(self, texts: dict[str, str]) -> None:
        now = self._own
        for name, text in texts.items():
            try:
                now = now.with_texts({name: text}, is_running=True)
            except InvalidError as error:
                # A controller of another version wrote it: the others hold.
                line = f"the setting {name}={text} has no effect here: {error}"
                if line not in self._said:
                    self._said.add(line)
                    self._say(line)
        self.now = now


def _texts(record: StoredRecord | None) -> dict[str, str]:
    if record is None:
        return {}
    return parse_properties_text(record.value.decode(errors="replace"), SETTINGS)
