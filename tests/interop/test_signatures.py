"""
Requests that pystore signs are verified by RocketMQ, and the other way round.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from typing import Any

import pytest
from interop.jvm import fetch, java_command, missing_tools

from pystore.remoting.codes import Serialisation
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.remoting.signature import SIGNATURE, Credentials, is_signed_by, signed

SEED = int(os.environ.get("PS_SEED", random.randrange(2**32)))
PIECES = ["a", "Z", "_x", "é", "\U0001f680", "\uffee", "集群", "0", ""]


def draw_text(draw: random.Random, most: int) -> str:
    """
    A text of some pieces.
    """
    return "".join(draw.choice(PIECES) for _ in range(draw.randrange(most)))


def draw_request(draw: random.Random) -> RemotingCommand:
    """
    Any request with some fields.
    """
    count = draw.randrange(9)
    fields = {"n" + draw_text(draw, 3): draw_text(draw, 4) for _ in range(count)}
    return RemotingCommand(
        draw.choice([10, 105, 310, 1006]),
        ext_fields=fields,
        body=draw.randbytes(draw.randrange(60)),
        version=draw.choice([300, 399, 400, 455]),
        serialisation=draw.choice(list(Serialisation)),
    )


def test_both_verify_what_the_other_signed() -> None:
    """
    Random requests, names in any script.
    """
    if missing := missing_tools():
        pytest.skip(f"{', '.join(missing)}: not installed")
    fetch()
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    with subprocess.Popen(
        java_command("SignTool"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as java:

        def ask(**job: str) -> dict[str, Any]:
            assert java.stdin is not None
            assert java.stdout is not None
            java.stdin.write(json.dumps(job) + "\n")
            java.stdin.flush()
            answer: dict[str, Any] = json.loads(java.stdout.readline())
            return answer

        for _ in range(200):
            request, key = draw_request(draw), "k" + draw_text(draw, 4)
            mine = signed(request, Credentials("me", key))
            found = ask(frame=encode_frame(mine).hex(), secretKey=key)
            assert found["accessKey"] == "me"
            assert found["signature"] == found["expected"]
            given = encode_frame(request).hex()
            theirs = ask(frame=given, accessKey="me", secretKey=key)
            reader = CommandReader(1 << 26, 1 << 20)
            reader.feed(memoryview(bytes.fromhex(theirs["frame"])))
            taken = reader.take()
            assert isinstance(taken, RemotingCommand)
            assert is_signed_by(taken, key)
            assert taken.ext_fields[SIGNATURE] == mine.ext_fields[SIGNATURE]
