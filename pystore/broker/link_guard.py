"""
What a broker knows about proofs of its links: it asks the controllers for its secrets.

It asks as soon as a controller tells another mastership or another mode, and at
intervals, since keys may be replaced. Controllers without a key file, and RocketMQ's,
are not asked. That proofs are required is believed at once, from any answer; that they
are required no more only from one that was sealed for this broker.

Source: docs/security.md, *Links*; B16.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace

from pystore.access.link_secrets import LinkAnswer, LinkQuestion, open_answer
from pystore.access.mode import AccessMode
from pystore.broker.config import NodeConfig
from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.calls import MasterInfo
from pystore.errors import PystoreError, UnavailableError
from pystore.ha.wire.proof import LinkGuard
from pystore.net.networks import is_in
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import encode_fields
from pystore.remoting.operator_headers import LinkSecretsRequest
from pystore.replicaset import Member

__all__ = ["LinkGuardKeeper"]

_AGAIN_S = 30.0
_RETRY_S, _RETRY_MAX_S = 0.05, 3.0


class LinkGuardKeeper:
    """
    Keeps the guard of one broker. For one event loop; `now` for any thread.

    Args:
        config: of the broker.
        client: to the controllers.
        say: receives one line for people if links cannot be proven.
    """

    def __init__(
        self, config: NodeConfig, client: ControllerClient, say: Callable[[str], object]
    ) -> None:
        self._config = config
        self._client = client
        self._say = say
        self._said = ""
        self._seen: tuple[int, AccessMode] | None = None
        self._has: tuple[int, AccessMode] | None = None
        self._wanted = asyncio.Event()
        self._guard = LinkGuard(may_lack=self._may_lack)

    def now(self) -> LinkGuard:
        """
        Returns what is known now.
        """
        return self._guard

    def _may_lack(self, host: str) -> bool:
        return is_in(host, self._config.ha_unproven)

    def told(self, found: MasterInfo) -> None:
        """
        Takes what a controller tells about the master.
        """
        if found.links is None:
            return
        if found.links is AccessMode.ENFORCING and not self._guard.is_required:
            self._guard = replace(self._guard, is_required=True)
        self._seen = found.master_epoch, found.links
        has = self._has
        if has is None or has[1] is not found.links or found.master_epoch > has[0]:
            self._wanted.set()

    async def run(self, me: Member, changed: Callable[[], object]) -> None:
        """
        Asks for secrets until it is cancelled.

        Args:
            me: this process of the broker.
            changed: called after each change.
        """
        wait_s = _RETRY_S
        while True:
            is_asked = await self._waits_for_news(_AGAIN_S)
            if self._seen is None or not (is_asked or self._has):
                continue
            try:
                found = await self._ask(me)
            except PystoreError as error:
                # Links that are proven go on; new ones wait.
                self._tell(f"no secrets for links: {error}")
                await self._waits_for_news(wait_s)
                wait_s = min(2 * wait_s, _RETRY_MAX_S)
                self._wanted.set()
                continue
            wait_s = _RETRY_S
            self._take(found, changed)

    async def _waits_for_news(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._wanted.wait()
        except TimeoutError:
            # Nothing new was told.
            return False
        self._wanted.clear()
        return True

    async def _ask(self, me: Member) -> LinkAnswer:
        config, credentials = self._config, self._config.credentials
        assert me.incarnation is not None
        if credentials is None:
            raise UnavailableError(
                "the controllers give them to brokers with credentials only: see "
                "credentialsFile"
            )
        asked = LinkQuestion(
            config.cluster,
            config.broker_name,
            me.broker_id,
            me.incarnation,
            secrets.token_hex(16),
        )
        header = LinkSecretsRequest(
            asked.cluster,
            asked.broker_name,
            asked.broker_id,
            asked.incarnation.text,
            asked.nonce,
        )
        answer = await self._client.call_leader(
            RemotingCommand(
                RequestCode.GET_LINK_SECRETS, ext_fields=encode_fields(header)
            )
        )
        if answer.code != ResponseCode.SUCCESS:
            remark = " ".join((answer.remark or "").split())[:200]
            raise UnavailableError(remark or f"code {answer.code}")
        sealed = answer.body.decode("ascii", "replace").split()
        return open_answer(sealed, asked, credentials().secret_key)

    def _take(self, found: LinkAnswer, changed: Callable[[], object]) -> None:
        own = found.secrets
        is_required = found.mode is AccessMode.ENFORCING
        self._has = (0 if own is None else own.epoch), found.mode
        self._said = ""
        guard = replace(self._guard, is_required=is_required, secrets=own)
        if guard != self._guard:
            self._guard = guard
            changed()

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._say(line)
