"""
The settings of a controller, with what an administrator changed while it ran.

Changes are a record of their own, so they count for every controller and survive all
of them (R235): RocketMQ changes one node alone.

Source: formats 4.11; R235, R257.
"""

from __future__ import annotations

from collections.abc import Mapping

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

    Attributes:
        now: with the changes, as they were read last.
    """

    def __init__(self, own: ControllerConfig) -> None:
        self.now = own
        self._own = own

    def read(self, store: RecordStore) -> None:
        """
        Looks whether somebody changed something.

        Raises:
            PystoreError: the store cannot be read.
        """
        self._take(_texts(store.get(SETTINGS)))

    def change(self, store: RecordStore, texts: Mapping[str, str]) -> None:
        """
        Changes settings for every controller.

        Raises:
            InvalidError: no such setting, one that is fixed, or a wrong value.
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
        raise UnavailableError("others change the settings at the same time: again")

    def _take(self, texts: dict[str, str]) -> None:
        try:
            self.now = self._own.with_texts(texts, is_running=True)
        except InvalidError:
            # A controller of a later version wrote what this one does not know.
            self.now = self._own


def _texts(record: StoredRecord | None) -> dict[str, str]:
    if record is None:
        return {}
    return parse_properties_text(record.value.decode(errors="replace"), SETTINGS)
