"""
The users of a real controller, as an operator adds and changes them.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from lib.certificates import Authority
from lib.command_line import run
from lib.controller.controller_process import ControllerProcess


def key_file(folder: Path) -> Path:
    """
    A key file, made by the command.
    """
    path = folder / "cluster.key"
    assert 0 == run("admin", "user", "newKey", path).exit_code
    return path


def test_a_cluster_is_switched_to_enforcing_by_commands_alone(tmp_path: Path) -> None:
    """
    A key, an operator, the mode; then a stranger is refused, and the operator is not.
    """
    key = key_file(tmp_path)
    file = tmp_path / "controller.toml"
    file.write_text(f'keyFile = "{key}"\n')
    alice = tmp_path / "alice.yml"
    with ControllerProcess("-c", file, "--store", tmp_path / "records") as controller:
        controller.await_lead()
        at = ("-a", controller.address)
        keys = ("--key-file", key)
        user = ("admin", "user")
        added = run(
            *user, "add", "alice", "--role=operator", "--out", alice, *keys, *at
        )
        assert (0, "user alice: done\n") == (added.exit_code, added.stdout)
        assert 0o600 == stat.S_IMODE(alice.stat().st_mode)
        mode = ("updateControllerConfig", *at, "-k", "authentication", "-v")
        assert 0 == run("admin", *mode, "enforcing").exit_code

        refused = run("admin", *mode, "off")
        assert 3 == refused.exit_code
        assert "16 NO_PERMISSION: the request is refused" in refused.stderr
        signed = ("admin", "--credentials", alice)
        new = tmp_path / "alice.new.yml"
        rotate = ("user", "rotate", "alice", "--out", new, *keys, *at)
        assert 0 == run(*signed, *rotate).exit_code
        # Both secrets are valid until the former one is retired.
        assert 0 == run(*signed, "user", "list", *at).exit_code
        signed_new = ("admin", "--credentials", new)
        assert 0 == run(*signed_new, "user", "retire", "alice", *keys, *at).exit_code
        assert 3 == run(*signed, "user", "list", *at).exit_code
        found = run(*signed_new, "user", "list", "--json", *at)
        assert [
            {
                "name": "alice",
                "roles": ["operator"],
                "bound": False,
                "secrets": 1,
                "version": 3,
            }
        ] == json.loads(found.stdout)["users"]
        told = run(*signed_new, "audit", *at).stdout.splitlines()
        assert 8 == len(told)
        assert " an unknown user at 127.0.0.1:" in told[0]
        assert told[2].endswith("UPDATE_CONTROLLER_CONFIG")
        assert "    settings: authentication=off -> authentication=enforcing" == told[3]
        assert " alice at 127.0.0.1:" in told[4]
        assert 0 == run(*signed_new, *mode, "off").exit_code
    secrets = [one.read_text().split()[-1] for one in (alice, new)]
    assert not any(one in "".join(controller.said) for one in secrets)


def test_a_rotation_goes_on_under_the_next_controller(tmp_path: Path) -> None:
    """
    The first one is killed while the user has two secrets.
    """
    key, file = key_file(tmp_path), tmp_path / "controller.toml"
    file.write_text(f'keyFile = "{key}"\n')
    old, new = tmp_path / "old.yml", tmp_path / "new.yml"
    words = ("-c", file, "--store", tmp_path / "records")
    keys = ("--key-file", key)
    with ControllerProcess(*words) as first, ControllerProcess(*words) as second:
        at = ("-a", first.address)
        first.await_lead()
        add = ("add", "alice", "--role=operator", "--out", old)
        assert 0 == run("admin", "user", *add, *keys, *at).exit_code
        mode = ("-k", "authentication", "-v", "enforcing")
        assert 0 == run("admin", "updateControllerConfig", *mode, *at).exit_code
        before, after = (("admin", "--credentials", one, "user") for one in (old, new))
        rotate = ("rotate", "alice", "--out", new)
        assert 0 == run(*before, *rotate, *keys, *at).exit_code
        first.kill()
        second.wait_for("this controller leads")

        at = ("-a", second.address)
        assert [0, 0] == [run(*one, "list", *at).exit_code for one in (before, after)]
        assert 0 == run(*after, "retire", "alice", *keys, *at).exit_code
        assert [3, 0] == [run(*one, "list", *at).exit_code for one in (before, after)]


@pytest.mark.parametrize("options", [(), ("--out", "a", "--from", "b")])
def test_a_secret_is_made_or_given(tmp_path: Path, options: tuple[str, ...]) -> None:
    """
    One of both, before any controller is asked.
    """
    key = key_file(tmp_path)
    more = ("--role=reader", *options, "--key-file", str(key), "-a", "127.0.0.1:1")
    found = run("admin", "user", "add", "u", *more)
    assert 2 == found.exit_code
    assert "give --out FILE for a new secret, or --from FILE" in found.stderr


def test_a_refused_change_leaves_no_file_with_a_secret(tmp_path: Path) -> None:
    """
    Here the controller has no key file.
    """
    key, out = key_file(tmp_path), tmp_path / "u.yml"
    with ControllerProcess("--store", tmp_path / "records") as controller:
        controller.await_lead()
        more = ("--role=reader", "--out", out, "--key-file", key)
        found = run("admin", "user", "add", "u", *more, "-a", controller.address)
    assert 3 == found.exit_code
    assert "this controller has no key file" in found.stderr
    assert not out.exists()


def test_a_secret_in_use_is_taken_from_its_file(tmp_path: Path) -> None:
    """
    If the file is that of the user.
    """
    key, tools = key_file(tmp_path), tmp_path / "tools.yml"
    tools.write_text("accessKey: mqadmin\nsecretKey: 12345678\n")
    tools.chmod(0o600)
    more = ("--role=operator", "--from", tools, "--key-file", key)
    found = run("admin", "user", "add", "alice", *more, "-a", "127.0.0.1:1")
    assert 3 == found.exit_code
    assert f"{tools} has the secret of mqadmin" in found.stderr


def test_a_second_key_goes_before_the_first(tmp_path: Path) -> None:
    """
    And what is no key file is kept as it is.
    """
    key = key_file(tmp_path)
    first = key.read_text()
    assert 0 == run("admin", "user", "newKey", key).exit_code
    assert key.read_text().endswith(first)
    assert 2 == len(key.read_text().split())
    other = tmp_path / "other"
    other.write_text("something else")
    other.chmod(0o600)
    found = run("admin", "user", "newKey", other)
    assert 3 == found.exit_code
    assert "something else" == other.read_text()


def test_commands_speak_tls_to_a_controller_that_takes_nothing_else(
    tmp_path: Path,
) -> None:
    """
    With the authority of its certificate; else one line says why.
    """
    authority = Authority(tmp_path)
    certificate, key = authority.issue("controller")
    file = tmp_path / "controller.toml"
    file.write_text(
        f'tlsMode = "enforcing"\ntlsCertificate = "{certificate}"\ntlsKey = "{key}"\n'
    )
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    words = ("-c", file, "--store", tmp_path / "records")
    with ControllerProcess(*words) as controller:
        controller.wait_for("this controller leads")
        show = ("getControllerMetaData", "-a", controller.address)
        known = run("admin", "--tls-authorities", authority.path, *show)
        assert 0 == known.exit_code, known.output
        stranger = run("admin", "--tls-authorities", other.path, *show)
        assert 3 == stranger.exit_code
        assert "its certificate is refused" in stranger.stderr
        plain = run("admin", *show)
        assert 3 == plain.exit_code
        assert "if it takes TLS only, give --tls-authorities" in plain.stderr
    assert any("127.0.0.1 refused: it does not speak" in one for one in controller.said)
