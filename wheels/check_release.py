"""
Checks all files of a release together, before they are published.

Usage: python wheels/check_release.py DIST [--tag TAG --source URL]

DIST holds the sdist and one wheel for each platform that is promised, all of one
version and fit for the index. With --tag the version must be the tag's, and with
--source the metadata must lead to that repository, the links of the description too.
On the first thing that is wrong: one line, exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path

from check_wheel import check_tag, inspect
from packaging.metadata import RawMetadata, parse_email
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from readme import RELATIVE_LINK
from tools import expect, only, report

PLATFORMS = (
    "macosx_11_0_arm64",
    "macosx_11_0_x86_64",
    "manylinux_2_28_aarch64",
    "manylinux_2_28_x86_64",
)


def check_platforms(wheels: list[Path]) -> None:
    """
    Each platform has its wheel, and no wheel is for another one.
    """
    served = sorted(
        name
        for wheel in wheels
        for name in {tag.platform for tag in parse_wheel_filename(wheel.name)[3]}
        if name in PLATFORMS
    )
    expect(
        served == sorted(PLATFORMS) and len(wheels) == len(PLATFORMS),
        f"wanted one wheel for each of {PLATFORMS}, found {[w.name for w in wheels]}",
    )


def metadata(path: Path) -> RawMetadata:
    """
    Returns what the index will say of a wheel or an sdist.
    """
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith("info/METADATA"))
            return parse_email(archive.read(name))[0]
    with tarfile.open(path) as archive:
        member = archive.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert member is not None
        return parse_email(member.read())[0]


def check_source(path: Path, source: str) -> None:
    """
    A reader of the index finds the repository, and the pages that are linked to.
    """
    found = metadata(path)
    urls = found.get("project_urls", {})
    expect(
        urls.get("Source") == source,
        f"{path.name}: its Source is {urls.get('Source')}, not {source}: build it in "
        "the workflow of that repository",
    )
    links = RELATIVE_LINK.findall(found.get("description", ""))
    expect(not links, f"{path.name}: these links lead nowhere on the index: {links}")


def check(dist: Path, tag: str | None, source: str | None) -> None:
    """
    Runs every check and prints a line.
    """
    sdist, wheels = only(dist, "*.tar.gz"), sorted(dist.glob("*.whl"))
    check_platforms(wheels)
    version = parse_sdist_filename(sdist.name)[1]
    for wheel in wheels:
        check_tag(wheel)
        other = parse_wheel_filename(wheel.name)[1]
        expect(other == version, f"{wheel.name}: {sdist.name} has another version")
    expect(
        tag is None or tag == f"v{version}",
        f"the tag {tag} does not fit the version {version} of pyproject.toml",
    )
    for path in (sdist, *wheels) if source else ():
        check_source(path, source or "")
    inspect(sdist, *wheels)
    print(f"version {version}: {len(wheels)} wheels and the sdist are fit to publish")


def main() -> int:
    """
    Returns the exit code: 0 fit to publish, 1 not.
    """
    parser = argparse.ArgumentParser(description="Checks the files of a release.")
    parser.add_argument("dist", type=Path, help="folder of the wheels and the sdist")
    parser.add_argument("--tag", help="tag of the release, v and its version")
    parser.add_argument("--source", help="address of the repository")
    arguments = parser.parse_args()
    dist = arguments.dist.resolve()
    return report(
        "check_release", partial(check, dist, arguments.tag, arguments.source)
    )


if __name__ == "__main__":
    sys.exit(main())
