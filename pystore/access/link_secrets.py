"""
The secrets with which brokers prove who they are on the links of replication. Pure.

The controllers derive one secret for each mastership from the key file; nothing is
stored. A broker asks for what it may have: the master of the set for the secret of its
mastership, another process for what is derived from that for itself
(`pystore.ha.wire.proof`). Each of them gets the one with which brokers of the set prove
to each other that they may read segments (`pystore.segments.peer_proof`).

The answer is sealed with the secret of the broker's user, for this question only, so it
is told over plain connections, too, and none is sent again. It says the mode as well:
nothing on the way can switch proofs off.

Source: docs/security.md, *Links*; B16.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass

from pystore.access.key_file import KeyFile
from pystore.access.mode import AccessMode
from pystore.errors import FormatError
from pystore.ha.wire.proof import LinkSecrets, slave_secret
from pystore.replicaset import Incarnation

__all__ = ["LinkAnswer", "LinkQuestion", "link_secrets", "open_answer", "seal_answer"]

_PURPOSE = b"pystore: answers about links"


@dataclass(frozen=True, slots=True)
class LinkQuestion:
    """
    What a broker asks for.

    Attributes:
        cluster: name of the cluster.
        broker_name: name of the set.
        broker_id: of the broker.
        incarnation: the start of its process.
        nonce: random, of this question.
    """

    cluster: str
    broker_name: str
    broker_id: int
    incarnation: Incarnation
    nonce: str

    @property
    def purpose(self) -> str:
        """
        What an answer is sealed for.
        """
        own = self.cluster, self.broker_name, self.broker_id, self.incarnation.text
        return json.dumps(["link", *own, self.nonce])


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """
    What a controller answers.

    Attributes:
        mode: of the controllers.
        secrets: of the newest mastership; ``None``: there was none yet.
    """

    mode: AccessMode
    secrets: LinkSecrets | None = None


def link_secrets(
    keys: KeyFile, asked: LinkQuestion, epoch: int, *, is_master: bool
) -> LinkSecrets:
    """
    Returns the secrets that a broker may have. They are made of the oldest key of the
    file, so a key that is added changes no link.

    Args:
        keys: of the cluster.
        asked: by the broker.
        epoch: of the mastership.
        is_master: whether this process is the master of the epoch.
    """
    secret, of_set = (
        b64decode(keys.secrets(json.dumps(names))[-1])
        for names in (
            [what, asked.cluster, asked.broker_name, epoch]
            for what in ("link", "segments")
        )
    )
    if is_master:
        return LinkSecrets(epoch, of_master=secret, of_set=of_set)
    start = asked.incarnation
    own = slave_secret(secret, asked.broker_id, start.counter, start.bits)
    return LinkSecrets(epoch, of_slave=own, of_set=of_set)


def seal_answer(answer: LinkAnswer, asked: LinkQuestion, secret_key: str) -> str:
    """
    Returns an answer that only this user opens, and for this question only.
    """
    content: dict[str, object] = {"mode": answer.mode.value}
    if answer.secrets is not None:
        content["epoch"] = answer.secrets.epoch
        content["master"] = b64encode(answer.secrets.of_master).decode()
        content["slave"] = b64encode(answer.secrets.of_slave).decode()
        content["set"] = b64encode(answer.secrets.of_set).decode()
    sealed = _keys(secret_key).seal(json.dumps(content).encode(), asked.purpose)
    return b64encode(sealed).decode()


def open_answer(
    sealed: Iterable[str], asked: LinkQuestion, secret_key: str
) -> LinkAnswer:
    """
    Returns the answer to a question.

    Args:
        sealed: one text for each secret that the user has.
        asked: the question.
        secret_key: of the user, as this process has it.

    Raises:
        FormatError: none is for this question and this secret.
    """
    keys = _keys(secret_key)
    for text in sealed:
        try:
            content = keys.open(b64decode(text, validate=True), asked.purpose)
        except (FormatError, ValueError):
            # No Base64, or perhaps sealed with the user's other secret.
            continue
        return _answer(json.loads(content))
    raise FormatError("it was sealed with another secret, or for another question")


def _answer(content: dict[str, object]) -> LinkAnswer:
    # It was sealed by a controller, so it has the form of `seal_answer`.
    mode = AccessMode(content["mode"])
    if "epoch" not in content:
        return LinkAnswer(mode)
    epoch = int(str(content["epoch"]))
    # The controller may be of the version before, and then tells no secret of the set.
    own = (b64decode(str(content.get(one, ""))) for one in ("master", "slave", "set"))
    return LinkAnswer(mode, LinkSecrets(epoch, *own))


def _keys(secret_key: str) -> KeyFile:
    return KeyFile([hmac.digest(secret_key.encode(), _PURPOSE, "sha256")])
