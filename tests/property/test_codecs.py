"""
What is encoded is read back, by whichever way it went.
"""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.oracle.model import Form, Spec
from lib.oracle.strategies import message_of, specs

from pystore import Check, CorruptError, Message
from pystore.core.scan import check_record

ALL = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.TAGS
HOSTS = ("127.0.0.1:10911", "[2001:db8::7]:1")

forms = st.builds(
    Form,
    segment_size=st.just(1 << 20),
    property_crc=st.booleans(),
    store_host=st.sampled_from(HOSTS),
)
offsets = st.integers(0, 2**62)
times = st.integers(1, 2**42)


@given(spec=specs(3000))
def test_a_message_is_its_form(spec: Spec) -> None:
    """
    From values to bytes and back, and through a pickle.
    """
    message = message_of(spec)

    assert message == Message.from_form(message.form)
    assert message == pickle.loads(pickle.dumps(message))
    assert (spec.topic, spec.body) == (message.topic, message.body)
    assert (spec.queue_id, spec.flag) == (message.queue_id, message.flag)
    assert dict(spec.properties) == message.properties
    assert spec.properties_raw == message.properties_raw


@given(form=forms, spec=specs(3000), offset=offsets, store_ms=times)
def test_a_record_of_the_model_is_read_back(
    form: Form, spec: Spec, offset: int, store_ms: int
) -> None:
    """
    The core finds the fields in bytes that it did not write.
    """
    data = form.encode(spec, offset, 12345, store_ms)
    record = check_record(data + b"more", offset, ALL)

    assert data == record.data
    assert (spec.topic, spec.body) == (record.topic, record.body)
    assert store_ms == record.store_ms
    assert (spec.born_ms or store_ms) == record.born_ms
    assert (12345 if spec.is_queued else 0) == record.queue_offset
    assert form.store_host.rpartition(":")[2] == record.store_host.rpartition(":")[2]
    assert message_of(spec).client_form == record.message().client_form


@given(spec=specs(300), offset=offsets, store_ms=times, data=st.data())
def test_no_change_to_a_record_with_a_property_crc_passes(
    spec: Spec, offset: int, store_ms: int, data: st.DataObject
) -> None:
    """
    A flip of any bit of any byte is found.
    """
    record = bytearray(Form(1 << 20).encode(spec, offset, 7, store_ms))
    at = data.draw(st.integers(0, len(record) - 1))
    record[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(CorruptError):
        check_record(bytes(record), offset, ALL | Check.NEED_PROPERTY)
