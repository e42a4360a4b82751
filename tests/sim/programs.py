"""
The programs of virtual processes: a broker of one node, and a controller. Both are the
objects that `pystore broker` and `pystore controller` run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from click.testing import CliRunner
from sim import sockets
from sim.disk import Disk
from sim.event_loop import VirtualLoop
from sim.kernel import Kernel
from sim.record_session import Answers, RecordSession
from sim.rules import watch_acks

from pystore.broker.control_requests import ControlRequests
from pystore.broker.node import BrokerNode
from pystore.broker.node_status import HostedNode
from pystore.broker.settings import NodeSettings
from pystore.cli.admin import admin
from pystore.clocks import wall_ms
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.controller import Controller
from pystore.errors import PystoreError
from pystore.events.event import Event
from pystore.store.retention import Retention

__all__ = ["AdminProgram", "BrokerProgram", "ControllerProgram", "LoopPolicy"]

_FLUSH_S = 0.5  # the core's default


class _AsyncProgram:
    """
    A coroutine in a loop, which a message ends.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._loop = VirtualLoop(kernel, sockets.net())
        self._task: asyncio.Task[None] | None = None

    def run(self) -> None:
        """
        See `sim.child.Program`.
        """
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._task = asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            await self.main()

    async def main(self) -> None:
        """
        Runs until it is cancelled.
        """
        raise NotImplementedError

    def stepped(self) -> None:
        """
        See `sim.child.Program`.
        """

    def stop(self) -> None:
        """
        Ends it in order.
        """

        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        self._loop.arrived(cancel)

    def line(self, text: str) -> None:
        """
        Tells a line for people.
        """
        self._kernel.say("line", text)

    def event(self, event: Event) -> None:
        """
        Tells an event.
        """
        self._kernel.say("line", f"{event}")


class BrokerProgram(_AsyncProgram):
    """
    A node, and the requests of its control socket.
    """

    def __init__(
        self,
        kernel: Kernel,
        settings: NodeSettings,
        defect: Callable[[], object] = bool,
    ) -> None:
        super().__init__(kernel)
        options = settings.options.copy()
        options["flush_interval_ms"] = 0  # its time would be real: see `_flush`
        options["on_event"] = self.event
        node = BrokerNode(settings.config, self.line, self.event, **options)
        self._hosted = HostedNode(settings, node)
        defect()
        # What the defect changes is not judged.
        watch_acks(kernel, lambda: node.log)
        self._requests = ControlRequests({settings.name: self._hosted}, self.line)
        self._flushed = 0
        self._disk = Disk(kernel)

    async def main(self) -> None:
        """
        Serves as `pystore.broker.host.Host` does.
        """
        node = self._hosted.node
        starting = asyncio.create_task(node.start())
        try:
            await asyncio.shield(starting)
            self._kernel.say("ready")
            threading.Thread(target=self._flush, daemon=True).start()
            await node.serve()
        finally:
            await asyncio.gather(starting, return_exceptions=True)
            await node.close()

    def arrived(self, kind: str, *more: Any) -> None:
        """
        A request of a client, or the order to stop.
        """
        if kind == "stop":
            self.stop()
            return
        if kind == "disk":
            (self._disk.state,) = more
            return
        if kind == "retain":
            self._kernel.start(self._retain)
            return
        number, content = more

        def answer() -> None:
            self._kernel.say("reply", number, self._requests.answer(content))

        self._kernel.start(answer)

    def _retain(self) -> None:
        """
        Deletes old segments, as far as the log lets it.
        """
        log = self._hosted.node.log
        if log is not None:
            with contextlib.suppress(PystoreError):  # as the node does: later
                log.store.retain(Retention(None, 1), wall_ms())

    def _flush(self) -> None:
        """
        Writes the log back at intervals, as the core's flusher does.
        """
        while True:
            time.sleep(_FLUSH_S)
            log = self._hosted.node.log
            if log is None:
                continue
            with contextlib.suppress(PystoreError):  # closed, or the log remembers it
                log.sync()

    def stepped(self) -> None:
        """
        Tells what is on disk: a power cut spares that alone.
        """
        log = self._hosted.node.log
        if log is None:
            return
        with contextlib.suppress(PystoreError):  # it is closed
            flushed = log.log().flushed_offset
            if flushed != self._flushed:
                self._flushed = flushed
                self._kernel.say("synced", flushed)


class ControllerProgram(_AsyncProgram):
    """
    A controller over the virtual record store.
    """

    def __init__(self, kernel: Kernel, settings: ControllerConfig) -> None:
        super().__init__(kernel)
        self._answers = Answers(kernel)
        self._controller = Controller(
            settings,
            self._session,
            self.line,
            tell=self.event,
            draw=Random(kernel.draw.random()),
        )
        self._session_ms = settings.zookeeper_session_timeout

    def _session(self) -> RecordSession:
        number = int.from_bytes(os.urandom(6))
        return RecordSession(self._kernel, self._answers, number, self._session_ms)

    async def main(self) -> None:
        """
        Serves as ``pystore controller`` does.
        """
        await self._controller.run(lambda _: self._kernel.say("ready"))

    def arrived(self, kind: str, *more: Any) -> None:
        """
        An answer of the record store, or the order to stop.
        """
        if kind == "stop":
            self.stop()
        else:
            self._answers.arrived(*more)


class AdminProgram:
    """
    One command of ``pystore admin``.
    """

    def __init__(self, kernel: Kernel, words: list[str]) -> None:
        self._kernel, self._words = kernel, words

    def run(self) -> None:
        """
        See `sim.child.Program`.
        """
        asyncio.set_event_loop_policy(LoopPolicy(self._kernel))
        done = CliRunner().invoke(admin, self._words)
        self._kernel.say("done", done.exit_code, done.output)

    def arrived(self, kind: str, *more: Any) -> None:
        """
        It takes no messages.
        """
        raise AssertionError((kind, more))

    def stepped(self) -> None:
        """
        See `sim.child.Program`.
        """


class LoopPolicy(asyncio.DefaultEventLoopPolicy):
    """
    Loops of all threads are virtual.

    Args:
        kernel: of this process.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """
        As of any policy.
        """
        return VirtualLoop(self._kernel, sockets.net())
