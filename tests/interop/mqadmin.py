"""
RocketMQ's tool mqadmin: one process for any number of commands.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from interop.jvm import DEFAULT_VERSION, java_command

__all__ = ["MqAdmin"]


class MqAdmin:
    """
    The process, which starts with the first command. For one thread.

    Args:
        home: RocketMQ's home, whose ``conf/tools.yml`` has the credentials; ``None``:
            nothing is signed.
        options: of Java.
        version: of RocketMQ; it was fetched with its processes.
    """

    def __init__(
        self,
        home: Path | None = None,
        options: str = "",
        version: str = DEFAULT_VERSION,
    ) -> None:
        self._command = java_command("AdminTool", version)
        self._process: subprocess.Popen[str] | None = None
        given = {"ROCKETMQ_HOME": str(home or ""), "JAVA_TOOL_OPTIONS": options}
        self._environment = os.environ | given

    def run(self, command: str, *words: str) -> str:
        """
        Returns the output of a command.
        """
        process = self._process = self._process or subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([command, *words]) + "\n")
        process.stdin.flush()
        answer: str = json.loads(process.stdout.readline())
        return answer

    def close(self) -> None:
        """
        Ends the process. May be called again.
        """
        if self._process is not None:
            self._process.communicate()
            self._process = None
