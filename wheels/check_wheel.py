"""
Checks what ``python -m build`` made: an sdist, and the wheel built from it.

Usage: python wheels/check_wheel.py DIST OUT

DIST holds one sdist and one wheel. The wheel is repaired into OUT, inspected, and
installed into a fresh environment, with dependencies from wheels only, where
``smoke.py`` appends and reads. On the first thing that is wrong: one line, exit
code 1.

The wheel that is built here is for systems as new as this one: its symbols come from
this machine's glibc (manylinux_2_34 on Debian 12). The released one is built in the
manylinux_2_28 container by ``wheels.yml`` and checked by ``check_release.py``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import venv
from functools import partial
from pathlib import Path

from packaging.utils import parse_wheel_filename
from tools import ROOT, expect, only, report, run

SMOKE = ROOT / "wheels" / "smoke.py"


def check_tag(wheel: Path) -> None:
    """
    One wheel serves every Python from the oldest on.
    """
    _name, _version, _build, tags = parse_wheel_filename(wheel.name)
    kinds = {(tag.interpreter, tag.abi) for tag in tags}
    expect(kinds == {("cp311", "abi3")}, f"{wheel.name}: not cp311-abi3")


def repair(wheel: Path, out: Path) -> Path:
    """
    Returns the wheel, stripped, with the tag of the oldest systems that it fits.
    """
    run("-m", "auditwheel", "repair", "--strip", "-w", out, wheel)
    repaired = only(out, "*.whl")
    expect("manylinux_" in repaired.name, f"{repaired.name}: no manylinux tag")
    return repaired


def inspect(*files: Path) -> None:
    """
    Metadata as the index reads it; in wheels the files and symbols that belong there.

    Args:
        files: wheels and sdists.
    """
    wheels = [path for path in files if path.suffix == ".whl"]
    run("-m", "twine", "check", "--strict", *files)
    run("-m", "check_wheel_contents", "--config", ROOT / "pyproject.toml", *wheels)
    run("-m", "abi3audit", "--strict", *wheels)


def smoke(wheel: Path) -> str:
    """
    Installs the wheel into a fresh environment and uses it there.
    """
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install = ("-m", "pip", "install", "-q", "--only-binary", ":all:")
        run(*install, wheel, python=python)
        return run("-I", SMOKE, python=python)


def check(dist: Path, out: Path) -> None:
    """
    Runs every check and prints a line for each.
    """
    wheel, sdist = only(dist, "*.whl"), only(dist, "*.tar.gz")
    check_tag(wheel)
    fit = repair(wheel, out) if sys.platform == "linux" else wheel
    inspect(fit, sdist)
    print(f"{sdist.name}: metadata is right")
    print(f"{fit.name}: tag, contents, symbols and metadata are right, for here only")
    print(smoke(fit), end="")


def main() -> int:
    """
    Returns the exit code: 0 fit to publish, 1 not.
    """
    parser = argparse.ArgumentParser(description="Checks a wheel and its sdist.")
    parser.add_argument("dist", type=Path, help="folder of one wheel and one sdist")
    parser.add_argument("out", type=Path, help="folder for the repaired wheel")
    arguments = parser.parse_args()
    dist, out = arguments.dist.resolve(), arguments.out.resolve()
    return report("check_wheel", partial(check, dist, out))


if __name__ == "__main__":
    sys.exit(main())
