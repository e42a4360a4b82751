"""
Secrets of links: derived by the controllers, sealed for one broker and one question.
"""

from __future__ import annotations

import pytest
from lib.values import replace

from pystore.access.key_file import KeyFile
from pystore.access.link_secrets import (
    LinkAnswer,
    LinkQuestion,
    link_secrets,
    open_answer,
    seal_answer,
)
from pystore.access.mode import AccessMode
from pystore.errors import FormatError
from pystore.ha.wire.proof import LinkSecrets, slave_secret
from pystore.replicaset import Incarnation

KEYS = KeyFile([bytes(range(32))])
START = Incarnation(5, bytes(16))
ASKED = LinkQuestion("c", "b", 2, START, "nonce")
SECRET = "the secret of a broker"
OTHERS = [
    replace(ASKED, cluster="d"),
    replace(ASKED, broker_name="d"),
    replace(ASKED, broker_id=3),
    replace(ASKED, incarnation=Incarnation(6, bytes(16))),
    replace(ASKED, nonce="another"),
]


def test_a_slave_gets_what_the_master_derives_for_it() -> None:
    """And not the secret of the mastership."""
    master = link_secrets(KEYS, replace(ASKED, broker_id=1), 4, is_master=True)
    slave = link_secrets(KEYS, ASKED, 4, is_master=False)

    assert (len(master.of_master), master.of_slave) == (32, b"")
    assert slave.of_master == b""
    assert slave.of_slave == slave_secret(master.of_master, 2, 5, bytes(16))


def test_each_mastership_has_a_secret_of_its_own() -> None:
    """Of each cluster, set and epoch, and of each key file."""
    found = {
        link_secrets(keys, asked, epoch, is_master=True).of_master
        for keys in (KEYS, KeyFile([bytes(32)]))
        for asked in (ASKED, *OTHERS[:2])
        for epoch in (4, 5)
    }
    assert len(found) == 12


def test_a_key_that_is_added_changes_no_secret() -> None:
    """The oldest key of the file counts, until it is removed."""
    longer = KeyFile([bytes(32), bytes(range(32))])
    assert link_secrets(longer, ASKED, 4, is_master=True) == link_secrets(
        KEYS, ASKED, 4, is_master=True
    )


@pytest.mark.parametrize("mode", AccessMode)
@pytest.mark.parametrize(
    "secrets", [None, LinkSecrets(4, b"m" * 32), LinkSecrets(9, of_slave=b"s" * 32)]
)
def test_an_answer_comes_back_as_it_was(
    mode: AccessMode, secrets: LinkSecrets | None
) -> None:
    """With either secret of the user, while one replaces the other."""
    answer = LinkAnswer(mode, secrets)
    sealed = [seal_answer(answer, ASKED, one) for one in ("another secret", SECRET)]
    assert answer == open_answer(sealed, ASKED, SECRET)
    assert answer == open_answer(sealed, ASKED, "another secret")


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_an_answer_is_for_one_question_only(other: LinkQuestion) -> None:
    """One that was sent before is worth nothing."""
    sealed = seal_answer(LinkAnswer(AccessMode.OFF), other, SECRET)
    with pytest.raises(FormatError, match="another secret, or for another question"):
        open_answer([sealed], ASKED, SECRET)


@pytest.mark.parametrize("text", ["", "AQ==", "no Base64", "A" * 100, "\ufffd"])
def test_what_no_controller_sealed_is_refused(text: str) -> None:
    """Whatever it is."""
    with pytest.raises(FormatError, match="another secret"):
        open_answer([text], ASKED, SECRET)
