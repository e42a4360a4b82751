"""
The keys of what AutoRecovery knows about whole replicas. Pure.

Source: AR-R1, AR-R3; docs/autorecovery.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.autorecovery.segment_key import escape_name, read_name
from pystore.errors import FormatError, InvalidError
from pystore.records.ops import check_key

__all__ = ["LOST", "ReplicaKey"]

LOST = "recovery/lost/"
"""One record for each replica that is dead, and since when."""


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """
    A replica of one broker set.

    Attributes:
        cluster: the name of the cluster.
        set_name: the name of the broker set.
        broker_id: in the set.
    """

    cluster: str
    set_name: str
    broker_id: int

    @property
    def text(self) -> str:
        """
        ``CLUSTER/SET/ID``, the names escaped as in the keys of segments.
        """
        names = f"{escape_name(self.cluster)}/{escape_name(self.set_name)}"
        return f"{names}/{self.broker_id}"

    @property
    def lost(self) -> str:
        """
        The key of the record of its loss.

        Raises:
            InvalidError: the names are too long for a key.
        """
        check_key(LOST + self.text)
        return LOST + self.text

    @classmethod
    def parse(cls, text: str) -> ReplicaKey:
        """
        Returns the replica of a `text`.

        Raises:
            FormatError: it is none.
        """
        cluster, _, rest = text.partition("/")
        name, _, number = rest.partition("/")
        if number.isascii() and number.isdigit():
            names = read_name(cluster), read_name(name)
            key = cls(*names, int(number))
            if key.text == text:
                return key
        raise FormatError(f"{text!r} is not CLUSTER/SET/ID of a replica", path=text)

    def is_storable(self) -> bool:
        """
        Returns whether the names fit a key.
        """
        try:
            return bool(self.lost)
        except InvalidError:
            # A controller may have longer names in its records than a key may have.
            return False
