"""
Judges what the commands say about a damaged store, each in a process of its own.
"""

from __future__ import annotations

from pathlib import Path

from damage.spark_verdict import spark_exit_code
from lib.command_line import run_forked

__all__ = ["judge_commands"]

_CODES = (0, 1, 3)


def judge_commands(root: Path) -> list[str]:
    """
    The objections: verify, the dry run, doctor and `spark verify` have one exit code,
    and `dump` is not content with a log that they call damaged.
    """
    ran = {
        "verify": run_forked("verify", root, "--json"),
        "recover": run_forked("recover", root, "--dry-run", "--json"),
        "doctor": run_forked("doctor", root, "--json"),
        "dump": run_forked("dump", root),
    }
    codes = {name: one.code for name, one in ran.items() if name != "dump"}
    codes["spark verify"] = spark_exit_code(root)[0]
    objections = [
        f"{name}: exit code {one.code}: {one.stderr[-600:]!r}"
        for name, one in ran.items()
        if one.code not in _CODES or "Traceback" in one.stderr
    ]
    if len(set(codes.values())) > 1:
        texts = {name: one.stderr[-200:] for name, one in ran.items() if one.stderr}
        objections.append(f"exit codes differ: {codes} {texts}")
    if ran["dump"].code and not codes["verify"]:
        objections.append(f"dump fails, verify does not: {ran['dump'].stderr!r}")
    return objections
