"""
Checks what ``wheels.yml`` will build, without building it.

Usage: python wheels/check_targets.py

Each runner of the workflow builds for its own machine and for every Python that is
promised, and for each of these targets every dependency has a wheel. On the first
thing that is wrong: one line, exit code 1.
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib

from tools import ROOT, expect, report, run

RUNNERS = {
    "ubuntu-24.04": ("linux", "x86_64"),
    "ubuntu-24.04-arm": ("linux", "aarch64"),
    "macos-15": ("macos", "arm64"),
    "macos-15-intel": ("macos", "x86_64"),
}
SYSTEMS = {"linux": "manylinux", "macos": "macosx"}
# What the oldest system of a target installs, newest first.
PLATFORMS = {
    "linux": ("manylinux_2_28", "manylinux_2_17", "manylinux2014"),
    "macos": ("macosx_11_0",),
}

# cibuildwheel asks the machine what it is; here it is told.
AS_MACHINE = """
import platform, sys
machine = sys.argv.pop(1)
platform.machine = lambda: machine
from cibuildwheel.__main__ import main
main()
"""


def pythons(project: dict[str, list[str]]) -> list[str]:
    """
    Returns the versions that the classifiers promise, as ``3.11``, oldest first.
    """
    text = "\n".join(project["classifiers"])
    return re.findall(r"Python :: (3\.\d+)$", text, re.M)


def check_runners() -> None:
    """
    The matrix of the workflow has the runners of the table, and no others.
    """
    workflow = (ROOT / ".github/workflows/wheels.yml").read_text(encoding="utf-8")
    matrix = re.search(r"^ +os: \[(.*)\]$", workflow, re.M)
    runners = re.split(r", *", matrix[1]) if matrix else []
    expect(
        sorted(runners) == sorted(RUNNERS),
        f"wheels.yml has the runners {runners}, check_targets.py has {[*RUNNERS]}",
    )


def check_identifiers(system: str, machine: str, versions: list[str]) -> None:
    """
    A runner builds for its own machine alone, and with every Python.
    """
    options = ("--print-build-identifiers", "--platform", system)
    built = run("-c", AS_MACHINE, machine, *options).split()
    wanted = [
        f"cp{version.replace('.', '')}-{SYSTEMS[system]}_{machine}"
        for version in versions
    ]
    expect(
        sorted(wanted) == sorted(built),
        f"{system} on {machine} builds {built} instead of {wanted}",
    )


def check_dependencies(
    system: str, machine: str, version: str, dependencies: list[str]
) -> None:
    """
    Without a compiler pip installs them there.
    """
    platforms = [f"--platform={name}_{machine}" for name in PLATFORMS[system]]
    with tempfile.TemporaryDirectory() as folder:
        options = ("-q", "--dry-run", "--only-binary=:all:", f"--target={folder}")
        target = (*platforms, f"--python-version={version}")
        run("-m", "pip", "install", *options, *target, *dependencies)


def check() -> None:
    """
    Runs every check and prints a line for each target.
    """
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(pyproject)["project"]
    versions = pythons(project)
    check_runners()
    for runner, (system, machine) in RUNNERS.items():
        check_identifiers(system, machine, versions)
        for version in (versions[0], versions[-1]):
            check_dependencies(system, machine, version, project["dependencies"])
        print(f"{runner}: builds for {system} {machine}, dependencies have wheels")


if __name__ == "__main__":
    sys.exit(report("check_targets", check))
