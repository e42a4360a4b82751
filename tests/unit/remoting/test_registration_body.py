"""
What a broker registers, as RocketMQ 5.3 writes it.
"""

from __future__ import annotations

import json

import pytest
from lib.remoting.name_server_peers import topic, topics

from pystore.errors import RemoteViolation
from pystore.remoting.registration_body import (
    DataVersion,
    RegistrationBody,
    TopicQueues,
)


def test_a_body_is_topics_and_their_version() -> None:
    """
    Fields that clients do not need are ignored.
    """
    body = RegistrationBody.decode(topics({"T": topic(8, 7)}, counter=3, epoch=5))

    assert DataVersion(3, 5, 1000) == body.version
    assert {"T": TopicQueues(8, 8, 7)} == body.topics


def test_a_body_of_nothing_has_no_topics() -> None:
    """
    RocketMQ takes it for a broker without topics, too.
    """
    assert RegistrationBody() == RegistrationBody.decode(b"")


def test_a_broker_before_rocketmq_5_has_no_state_version() -> None:
    """
    Its epoch is that of a broker without a controller.
    """
    assert DataVersion(1, 0, 2) == DataVersion.decode(b'{"counter":1,"timestamp":2}')


def test_a_version_is_written_as_rocketmq_does() -> None:
    """
    To the byte; this was its answer to 322.
    """
    assert (
        b'{"counter":1,"stateVersion":0,"timestamp":1000}'
        == DataVersion(1, 0, 1000).encode()
    )


def test_the_mapping_of_a_static_topic_is_kept_as_it_is() -> None:
    """
    Without it clients would take logical queues for those of one broker.
    """
    mapping = {"topic": "T1", "bname": "s", "currIdMap": {"0": 0}}
    body = RegistrationBody.decode(topics(topicQueueMappingInfoMap={"T1": mapping}))

    assert mapping == body.topics["T1"].mapping
    assert body.topics["T2"].mapping is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[]", "whose registration is not an object"),
        (b"{}", "whose topicConfigSerializeWrapper is not an object"),
        (
            json.dumps({"topicConfigTable": {}}).encode(),
            "SerializeWrapper is not an object",
        ),
        (topics({"T": {"perm": 6}}), "whose readQueueNums is missing"),
        (topics({"T": topic() | {"perm": "6"}}), "whose perm is not of type int"),
        (
            json.dumps(json.loads(topics()) | {"filterServerList": [1]}).encode(),
            "filterServerList is not all text",
        ),
    ],
)
def test_a_malformed_registration_is_one_clear_error(body: bytes, why: str) -> None:
    """
    Java uses defaults for missing numbers, or registers half of the topics.
    """
    with pytest.raises(RemoteViolation, match=why):
        RegistrationBody.decode(body)
