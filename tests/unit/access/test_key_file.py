"""
The key file of a cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.access.key_file import KeyFile, check_private, new_key
from pystore.errors import FormatError, InvalidError


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """
    A file with this mode.
    """
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_first_key_seals_and_each_key_opens(tmp_path: Path) -> None:
    """
    So a key can be replaced while records sealed with the former one are there.
    """
    old, new = new_key(), new_key()
    before = KeyFile.read(written(tmp_path / "a", f"{old}\n"))
    both = KeyFile.read(written(tmp_path / "b", f"# ours\n{new}\n\n{old}\n"))
    after = KeyFile.read(written(tmp_path / "c", new))
    assert b"text" == both.open(before.seal(b"text", "x"), "x")
    assert b"text" == after.open(both.seal(b"text", "x"), "x")
    with pytest.raises(FormatError, match="another key"):
        before.open(both.seal(b"text", "x"), "x")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o610, 0o601, 0o644])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    """
    The line says how to mend it.
    """
    path = written(tmp_path / "key", new_key(), mode)
    with pytest.raises(InvalidError, match=f"mode {mode:04o}.*chmod 600"):
        KeyFile.read(path)
    with pytest.raises(InvalidError):
        check_private(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no key"),
        ("# a comment\n", "has no key"),
        ("not base64!\n", "line 1 is no Base64"),
        ("\nc2hvcnQ=\n", "line 2 has 5 bytes"),
    ],
)
def test_a_line_that_is_no_key_is_named_and_not_shown(
    tmp_path: Path, text: str, reason: str
) -> None:
    """
    It may be a secret.
    """
    with pytest.raises(InvalidError, match=reason) as raised:
        KeyFile.read(written(tmp_path / "key", text))
    assert not text.strip() or text.strip() not in str(raised.value)


def test_keys_are_never_the_same() -> None:
    """
    Of the system's randomness, 32 bytes each.
    """
    assert len({new_key() for _ in range(100)}) == 100
