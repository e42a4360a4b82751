"""
The identity of a group of controllers: that of their record store. Pure.

Two record stores number epochs and broker ids each for itself, so a broker that meets
the controllers of another one must not obey them. The identity is a UUID, made by the
first controller that leads over an empty record store, and never changed. Controllers
of pystore tell it in every answer and notice, and brokers of pystore in every request,
once they know it. RocketMQ's controllers and brokers tell none, and ignore it.

Source: docs/identity.md, *The identity of the controllers*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pystore.remoting.codes import ResponseCode
from pystore.remoting.fields import MissingField

__all__ = [
    "cluster_id_fields",
    "cluster_id_of",
    "is_cluster_id",
    "is_told",
    "refusal_of",
]

_FIELD = "pystoreClusterId"
_CLUSTER_ID = re.compile(r"[0-9a-f]{32}")


def is_cluster_id(text: str) -> bool:
    """
    Returns whether a text is an identity: a UUID as 32 hexadecimal digits.
    """
    return _CLUSTER_ID.fullmatch(text) is not None


def cluster_id_fields(cluster_id: str) -> dict[str, str]:
    """
    Returns the extension fields of a command.

    Args:
        cluster_id: empty: not known, so there is no field.
    """
    return {_FIELD: cluster_id} if cluster_id else {}


def cluster_id_of(fields: Mapping[str, str]) -> str:
    """
    Returns the identity in a command; empty: it tells none.

    Raises:
        MissingField: it is malformed.
    """
    text = fields.get(_FIELD, "")
    if text and not is_cluster_id(text):
        raise MissingField(
            f"{_FIELD}: {text[:40]!r} is no UUID",
            ResponseCode.CONTROLLER_INVALID_REQUEST,
        )
    return text


def is_told(fields: Mapping[str, str], cluster_id: str) -> bool:
    """
    Returns whether a command tells this identity; none tells an empty one.
    """
    return bool(cluster_id) and fields.get(_FIELD) == cluster_id


def refusal_of(broker: str, controllers: str) -> str:
    """
    Returns why a broker and controllers do not belong together, as one line; empty:
    they do, or one side tells no identity.

    Args:
        broker: the identity that the store of the broker has.
        controllers: the identity of the controllers.
    """
    if not broker or not controllers or broker == controllers:
        return ""
    return (
        f"the controllers have the record store {controllers}, and the store of this "
        f"broker belongs to {broker}: correct controllerAddr, or give this broker an "
        "empty store"
    )
