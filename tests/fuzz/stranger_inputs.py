"""
What a stranger sends: requests of every code, frames of the port of replication and of
that of segments, bytes.

A stranger has the protocol library, knows all names, ids, incarnations and addresses
of a set, and has captured signed requests of its operator; it has no secret.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from lib.ha.wire_frames import EXAMPLES
from lib.values import replace

from pystore.errors import InvalidError
from pystore.ha.wire.codes import SlaveFlag
from pystore.ha.wire.frames import Frame, HandshakeSlave
from pystore.ha.wire.v3 import encode
from pystore.remoting import (
    controller_headers,
    name_server_headers,
    operator_headers,
)
from pystore.remoting.codes import CommandFlag, RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import wire_name
from pystore.remoting.framing import encode_frame
from pystore.remoting.signature import Credentials, signed
from pystore.replicaset import Member
from pystore.segments.peer_protocol import encode_message

__all__ = ["Knowledge", "StrangerInputs"]

_HEADERS = [
    getattr(module, name)
    for module in (controller_headers, name_server_headers, operator_headers)
    for name in module.__all__
    if isinstance(getattr(module, name), type)
]
_NUMBERS = (-(2**63), -1, 0, 1, 2, 3, 4, 77, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
_TEXTS = ("", "0", "x" * 300, "\x1b]0;x\x07", "ключ", "%s", "../..", "true")
_ASKED = ("describe", "stat", "digests", "damaged", "block")
_OFTEN = (1, 1, 1, 1, 1)
_EPOCHS = (-1, 0, 1, 2, 3, 2**62)
_FRAMES = [frame for frame, _ in EXAMPLES.values()]
_FRAMES += 5 * [one for one in _FRAMES if isinstance(one.body, HandshakeSlave)]


@dataclass(frozen=True)
class Knowledge:
    """
    What a stranger knows of a set.

    Attributes:
        cluster: name of the cluster.
        broker_name: name of the set.
        epoch: of its master.
        members: its brokers, with their incarnations.
        texts: addresses and other values of fields.
        users: names of users.
        captured: signed requests of other connections.
    """

    cluster: str
    broker_name: str
    epoch: int
    members: Sequence[Member]
    texts: Sequence[str]
    users: Sequence[str]
    captured: Sequence[bytes]


class StrangerInputs:
    """
    One stranger's choices. Pure but for its generator.

    Args:
        draw: the generator.
        known: what the stranger knows.
    """

    def __init__(self, draw: random.Random, known: Knowledge) -> None:
        self._draw = draw
        self._known = known
        incarnations = [
            one.incarnation.text for one in known.members if one.incarnation
        ]
        names = (known.cluster, known.broker_name, *incarnations)
        self._texts = (*names, *known.texts, *_TEXTS)

    def request(self, opaque: int) -> bytes:
        """
        Returns the frame of a request, or what is left of one.
        """
        draw = self._draw
        if draw.random() < 0.1:
            return draw.choice(self._known.captured)
        code = (
            draw.choice(list(RequestCode)).value
            if draw.random() < 0.9
            else draw.randrange(-10, 10_000)
        )
        flags = (0, int(CommandFlag.ONE_WAY), int(CommandFlag.RESPONSE))
        request = RemotingCommand(
            code,
            opaque=opaque,
            flag=draw.choices(flags, (8, 1, 1))[0],
            ext_fields=self._fields(),
            body=self._body(),
        )
        if draw.random() < 0.5:
            own = Credentials(
                draw.choice([*self._known.users, "x"]), self._text() or "x"
            )
            request = signed(request, own)
        return self._changed(encode_frame(request), 0.05)

    def _fields(self) -> dict[str, str]:
        draw = self._draw
        kind = draw.choice(_HEADERS)
        hints = get_type_hints(kind, include_extras=True)
        found = {
            wire_name(one.name): str(self._value(hints[one.name]))
            for one in fields(kind)
            if draw.random() < 0.9
        }
        if draw.random() < 0.7:
            found |= {
                "clusterName": self._known.cluster,
                "brokerName": self._known.broker_name,
            }
        if draw.random() < 0.1:
            found[self._text()] = self._text()
        return found

    def _value(self, hint: object) -> object:
        if hint is bool:
            return self._draw.choice(("true", "false"))
        if int in (hint, *get_args(hint)):
            return self._draw.choice(_NUMBERS)
        return self._text()

    def _text(self) -> str:
        return self._draw.choice(self._texts)

    def _body(self) -> bytes:
        draw = self._draw
        choices: tuple[bytes, ...] = (
            b"",
            b'{"syncStateSet":[2,3],"syncStateSetEpoch":9}',
            b"authentication=off\nenableElectUncleanMaster=true\n",
            draw.randbytes(draw.randrange(200)),
        )
        return draw.choice(choices)

    def frames(self) -> bytes:
        """
        Returns a few frames for the port of replication, or what is left of them.
        """
        draw = self._draw
        found = b"".join(self._frame() for _ in range(draw.randrange(1, 5)))
        return self._changed(found, 0.2)

    def _frame(self) -> bytes:
        draw = self._draw
        frame = draw.choice(_FRAMES)
        hints = get_type_hints(type(frame.body))
        changes: dict[str, Any] = {}
        if isinstance(frame.body, HandshakeSlave):
            changes |= self._claims()
        for name, hint in hints.items():
            if hint is int and draw.random() < 0.2:
                changes[name] = draw.choice(_NUMBERS[1:9])
            elif hint is str and draw.random() < 0.2:
                changes[name] = self._text()
        epoch = draw.choice((self._known.epoch, self._known.epoch, *_EPOCHS))
        try:
            return encode(Frame(epoch, 0, replace(frame.body, **changes)))
        except (InvalidError, struct.error):
            # A number that its field cannot hold.
            return encode(Frame(epoch, 0, frame.body))

    def _claims(self) -> dict[str, Any]:
        """
        Returns the fields of a handshake of one of the members.
        """
        draw, known = self._draw, self._known
        member = draw.choice(known.members)
        found: dict[str, Any] = {
            "cluster": known.cluster,
            "broker_name": known.broker_name,
            "broker_id": member.broker_id,
            "last_epoch": known.epoch,
        }
        if member.incarnation is not None:
            found["incarnation"] = member.incarnation.counter
            found["incarnation_bits"] = member.incarnation.bits
        if draw.random() < 0.7:
            found |= {"flags": SlaveFlag.PROVES, "challenge": draw.randbytes(16)}
        return found

    def segments(self) -> bytes:
        """
        Returns a few frames for the port of segments, or what is left of them.
        """
        draw = self._draw
        found = b"".join(self._segment_frame() for _ in range(draw.randrange(1, 5)))
        return self._changed(found, 0.2)

    def _segment_frame(self) -> bytes:
        draw = self._draw
        (what,) = draw.choices(("challenge", "prove", *_ASKED), (6, 4, *_OFTEN))
        number = (0, self._known.epoch, *_NUMBERS)
        blocks = [draw.choice(_NUMBERS) for _ in range(draw.randrange(20))]
        digits = f"{draw.getrandbits(128):032x}"
        found: dict[str, Any] = {
            "request": what,
            "epoch": draw.choice((self._known.epoch, draw.choice(number))),
            "challenge": draw.choice((digits, digits, self._text())),
            "proof": draw.choice((f"{draw.getrandbits(256):064x}", self._text())),
            "segment": draw.choice(number),
            "block": draw.choice(number),
            "blocks": blocks,
        }
        for name in found.keys() - {"request"}:
            if draw.random() < 0.1:
                found[name] = draw.choice((None, True, 0.5, [], {}, self._text()))
        if draw.random() < 0.05:
            found["request"] = draw.choice((None, [], self._text(), 2**63))
        return encode_message(found)

    def noise(self) -> bytes:
        """
        Returns bytes of no protocol.
        """
        return self._draw.randbytes(self._draw.randrange(1, 300))

    def _changed(self, data: bytes, chance: float) -> bytes:
        draw = self._draw
        if not data or draw.random() >= chance:
            return data
        if draw.random() < 0.5:
            return data[: draw.randrange(len(data))]
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return bytes(changed)
