"""
Carries out the negotiation and registration of a broker: store, controller, pauses.

The decisions are those of `pystore.controller.identity.negotiation`. Each write to the
store blocks the loop for one sync; there are two in the life of a broker.

Source: RMQ-R2 to RMQ-R4, RMQ-R19 to RMQ-R28; docs/identity.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pystore.controller.identity.negotiation import (
    DeleteTemp,
    GiveUp,
    Negotiation,
    Pause,
    ReadIdentity,
    WriteConfirmed,
    WriteTemp,
)
from pystore.controller.identity.store import IdentityStore
from pystore.controller.protocol.calls import (
    Answer,
    ApplyBrokerId,
    ControllerCalls,
    GetNextBrokerId,
    RegisterBroker,
)
from pystore.errors import (
    FormatError,
    InvalidError,
    PoisonedError,
    PystoreError,
    StorageError,
)

__all__ = ["BrokerRegistration"]

_Request = GetNextBrokerId | ApplyBrokerId | RegisterBroker
_Write = ReadIdentity | WriteTemp | WriteConfirmed | DeleteTemp


class BrokerRegistration:
    """
    Registers a broker, and retries until it is registered. One task.

    Args:
        negotiation: the state to start with.
        store: of the identity.
        calls: to the controller.
        pause: waits before the n-th retry; it draws the time.
        say: receives one line for people, once for each problem.

    Attributes:
        negotiation: the present state; `Negotiation.problem` has the last failure.
    """

    def __init__(
        self,
        negotiation: Negotiation,
        store: IdentityStore,
        calls: ControllerCalls,
        pause: Callable[[int], Awaitable[object]],
        say: Callable[[str], object],
    ) -> None:
        self.negotiation = negotiation
        self._store = store
        self._calls = calls
        self._pause = pause
        self._say = say
        self._said = ""

    async def run(self) -> Negotiation:
        """
        Runs until the broker is registered, without a time-out.

        Raises:
            InvalidError: the configuration does not fit the store.
            FormatError: the identity in the store is damaged.
            PoisonedError: the store has to be opened again.
        """
        while (effect := self.negotiation.next_effect()) is not None:
            match effect:
                case GiveUp():
                    raise InvalidError(effect.reason)
                case Pause():
                    self._tell(effect.reason)
                    await self._pause(effect.failures)
                    self.negotiation = self.negotiation.paused()
                case GetNextBrokerId() | ApplyBrokerId() | RegisterBroker():
                    answer = await self._ask(effect)
                    self.negotiation = self.negotiation.answered(answer)
                case _:
                    self.negotiation = self._touch_store(effect)
        self._said = ""
        return self.negotiation

    def _tell(self, reason: str) -> None:
        if reason != self._said:
            self._say(reason)
            self._said = reason

    async def _ask(self, request: _Request) -> Answer:
        match request:
            case GetNextBrokerId():
                return await self._calls.get_next_broker_id(request)
            case ApplyBrokerId():
                return await self._calls.apply_broker_id(request)
            case RegisterBroker():
                return await self._calls.register_broker(request)

    def _touch_store(self, effect: _Write) -> Negotiation:
        now = self.negotiation
        try:
            match effect:
                case ReadIdentity():
                    return now.found(self._store.read())
                case WriteTemp():
                    self._store.write_temporary(effect.temporary)
                case WriteConfirmed():
                    self._store.confirm(effect.identity)
                case DeleteTemp():
                    self._store.delete_temporary(effect.temporary)
        except StorageError as error:
            # A disk may recover; a poisoned LMDB environment has to be opened again.
            if isinstance(error, PoisonedError):
                self._fail_for_good(error)
                raise
            return now.failed(str(error), is_final=False)
        except FormatError as error:
            # A damaged identity never counts as none (RMQ-R16).
            self._fail_for_good(error)
            raise
        return now.stored()

    def _fail_for_good(self, error: PystoreError) -> None:
        self.negotiation = self.negotiation.failed(str(error), is_final=True)
