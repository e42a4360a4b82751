"""
The check of a release accepts correct files and stops all others.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import check_release
import pytest
from tools import WrongError

SOURCE = "https://code.example/pystore"
WHEELS = [
    Path(f"pystore_commitlog-1.0-cp311-abi3-{platforms}.whl")
    for platforms in (
        "macosx_11_0_arm64",
        "macosx_11_0_x86_64",
        "manylinux_2_26_aarch64.manylinux_2_28_aarch64",
        "manylinux_2_28_x86_64",
    )
]


def _wheel(folder: Path, *, source: str = SOURCE, text: str = "[a](#a)") -> Path:
    path = folder / WHEELS[0]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "pystore_commitlog-1.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: pystore-commitlog\nVersion: 1.0\n"
            f"Project-URL: Source, {source}\n\n{text}\n",
        )
    return path


def test_one_wheel_for_each_platform_passes() -> None:
    """
    A wheel may have tags of older systems beside the promised one.
    """
    check_release.check_platforms(WHEELS)


@pytest.mark.parametrize(
    "wheels",
    [
        WHEELS[:-1],
        [*WHEELS, Path("pystore_commitlog-1.0-cp311-abi3-linux_x86_64.whl")],
        [*WHEELS[:-1], Path(str(WHEELS[-1]).replace("2_28", "2_34"))],
    ],
    ids=["one missing", "one too many", "one for newer systems only"],
)
def test_a_release_with_other_wheels_is_stopped(wheels: list[Path]) -> None:
    """
    Every promised wheel exists, and no wheel that was built by mistake.
    """
    with pytest.raises(WrongError, match="wanted one wheel for each of"):
        check_release.check_platforms(wheels)


def test_metadata_that_leads_to_the_repository_passes(tmp_path: Path) -> None:
    """
    Links within the page are no links into the project.
    """
    check_release.check_source(_wheel(tmp_path), SOURCE)


def test_another_repository_is_stopped(tmp_path: Path) -> None:
    """
    A copy of the project does not publish under the address of the first.
    """
    wheel = _wheel(tmp_path, source="https://code.example/other")

    with pytest.raises(WrongError, match=r"its Source is https://code.example/other"):
        check_release.check_source(wheel, SOURCE)


def test_a_relative_link_is_stopped(tmp_path: Path) -> None:
    """
    The index has no page under docs/.
    """
    wheel = _wheel(tmp_path, text="[python](docs/python.md)")

    with pytest.raises(WrongError, match=r"lead nowhere on the index.*docs/python\.md"):
        check_release.check_source(wheel, SOURCE)


@pytest.mark.parametrize(
    ("tag", "others", "complaint"),
    [
        ("v1.1", "1.0", "the tag v1.1 does not fit the version 1.0"),
        ("v1.0", "1.1", "pystore_commitlog-1.0.tar.gz has another version"),
    ],
)
def test_files_of_another_version_are_stopped(
    tmp_path: Path, tag: str, others: str, complaint: str
) -> None:
    """
    The tag, the sdist and each wheel have one version.
    """
    (tmp_path / "pystore_commitlog-1.0.tar.gz").touch()
    for wheel in WHEELS:
        (tmp_path / str(wheel).replace("1.0", others)).touch()

    with pytest.raises(WrongError, match=complaint):
        check_release.check(tmp_path, tag, SOURCE)
