"""
One command: a request or a response. Pure.

Source: formats 3.2, 3.4; docs/remoting.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.errors import InvalidError
from pystore.remoting.codes import CommandFlag, Language, Serialisation

__all__ = ["RemotingCommand"]

# Plain numbers: an enumeration's arithmetic costs a microsecond for each command.
_RESPONSE, _ONE_WAY = int(CommandFlag.RESPONSE), int(CommandFlag.ONE_WAY)
_I32_MIN, _I32_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class RemotingCommand:
    """
    The content of one frame.

    Attributes:
        code: of the request, or of the response.
        opaque: the requester's number; the response repeats it.
        flag: `CommandFlag`; other bits are kept.
        ext_fields: the header of this code; all values are text, none is null.
        body: empty where there is none.
        remark: for people; ``None`` in most.
        language: of the sender.
        version: of the sender, as an ordinal; 0: not set.
        serialisation: of the header.
        user: of a received request, its verified user; empty: none. It is in no frame.

    Raises:
        InvalidError: a number is outside the range of 32 bits.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    ext_fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None
    language: Language = Language.PYTHON
    version: int = 0
    serialisation: Serialisation = Serialisation.JSON
    user: str = ""

    def __post_init__(self) -> None:
        code, opaque, flag, version = self.code, self.opaque, self.flag, self.version
        if (
            _I32_MIN <= code <= _I32_MAX
            and _I32_MIN <= opaque <= _I32_MAX
            and _I32_MIN <= flag <= _I32_MAX
            and _I32_MIN <= version <= _I32_MAX
        ):
            return
        for name, number in (
            ("code", code),
            ("opaque", opaque),
            ("flag", flag),
            ("version", version),
        ):
            # Not `in range(...)`, which iterates for the value of an enumeration.
            if not _I32_MIN <= number <= _I32_MAX:
                raise InvalidError(
                    f"the {name} of a command is outside 32 bits: {number}"
                )

    def asked_by(self, address: str) -> str:
        """
        Returns who sent it, for people.

        Args:
            address: of its connection.
        """
        return f"{self.user} at {address}" if self.user else address

    @property
    def is_response(self) -> bool:
        """
        Whether it is a response.
        """
        return bool(self.flag & _RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """
        Whether it must not be answered, not even with an error.
        """
        return bool(self.flag & _ONE_WAY)
