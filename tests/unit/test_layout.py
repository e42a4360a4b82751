"""
The rules of the project that a test can check: sizes, names, docstrings, links.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from lib.samples import long_tests

UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]
SPARK = ROOT / "tests" / "spark"  # what needs a session
SOURCE = ("pystore", "ha", "controller")
FOLDERS = (*SOURCE, "bench", "csrc", "tests", "wheels")

CODE_LINES = 400  # of Python, without docstrings, comments and empty lines
FILE_LINES = 600  # of any file
SMALL_LINES = 60
FUNCTION_LINES = 70
C_COLUMNS = 80  # clang-format leaves comments alone; Python's 88 are ruff's

C_FUNCTION = re.compile(r"^\w[^;{}#]*?(\w+)\([^;{}]*\)\s*\{$.*?^\}$", re.M | re.S)

# Python files with more code than `CODE_LINES`, and why each is one idea.
LONG: dict[str, str] = {}

# Modules of fewer than `SMALL_LINES` lines that one module imports, and why they stand
# alone.
SMALL = {
    "pystore/core/writeback.py": "a call of the core, for packages above the log",
    "pystore/consumequeue/below.py": "one rule of records below a log, tested alone",
    "controller/decide/import_set.py": "one command, one file, as beside it",
    "controller/decide/note.py": "one command, one file, as beside it",
    "ha/master/send_times.py": "a bounded table, tested alone",
    "ha/slave/frame_checks.py": "what is checked, apart from what follows",
    "ha/slave/maintenance.py": "a thread and its clock, apart from the log it serves",
    "ha/wire/checksum.py": "the call of the core, apart from the pure protocol",
    "pystore/__main__.py": "Python wants it by this name",
    "pystore/cli/admin/events.py": "one command, apart from the others",
    "pystore/cli/recovery/status.py": "one command, apart from its text",
    "pystore/demo/zookeeper_root.py": "the one file of the demo that needs kazoo",
    "pystore/rates/yielding.py": "the rule, pure, apart from clocks and threads",
    "pystore/remoting/unread.py": "a bounded sum, tested alone",
    "pystore/spark/export/job.py": "the one file of the export that needs PySpark",
}

# Modules without a test file of their own, and why.
UNTESTED = {
    "pystore/broker/node_upkeep.py": "tested by broker/test_node",
    "pystore/cli/lib/peer_tls.py": "tested by cluster/test_recovery_daemon",
    "pystore/autorecovery/host_client.py": "by cluster/test_replaced_replica",
    "pystore/cli/recovery/host_options.py": "by cluster/test_replaced_replica",
    "pystore/cli/recovery/hosts.py": "tested by cluster/test_replaced_replica",
    "pystore/autorecovery/repair_counts.py": "tested by autorecovery/test_metrics",
    "pystore/cli/lib/recovery_works.py": "tested by cluster/test_recovery_daemon",
    "pystore/cli/recovery/explain.py": "tested by cluster/test_recovery_daemon",
    "pystore/cli/recovery/daemon.py": "tested by cluster/test_recovery_daemon",
    "pystore/autorecovery/audit_stamp.py": "tested by autorecovery/test_auditor_looks",
    "pystore/autorecovery/auditor_status.py": "tested by autorecovery/test_auditor",
    "pystore/autorecovery/damage_audit.py": "tested by autorecovery/test_auditor_looks",
    "pystore/autorecovery/fill_audit.py": "tested by autorecovery/test_auditor_fills",
    "pystore/autorecovery/loss_audit.py": "tested by autorecovery/test_auditor_losses",
    "pystore/autorecovery/queue_picture.py": "autorecovery/test_auditor_fills",
    "pystore/broker/ill_store.py": "tested by broker/test_ill_replica",
    "pystore/broker/hosted_sets.py": "tested by broker/test_host_port",
    "pystore/broker/rocketmq_settings.py": "tested by broker/test_settings",
    "pystore/cli/admin/hosts.py": "tested by cluster/test_hosts",
    "pystore/remoting/host_headers.py": "values alone",
    "pystore/autorecovery/host_peers.py": "interfaces: unit/autorecovery",
    "pystore/autorecovery/replacement_action.py": "values alone: unit/autorecovery",
    "pystore/autorecovery/replacement_state.py": "by autorecovery/test_replacement",
    "pystore/autorecovery/replacement_steps.py": "by autorecovery/test_replacement",
    "pystore/autorecovery/replica_peers.py": "interfaces: unit/autorecovery",
    "pystore/autorecovery/peer_client.py": "tested by broker/test_segment_requests",
    "pystore/segments/order_run.py": "tested by broker/test_segment_jobs",
    "pystore/segments/order_target.py": "tested by broker/test_ill_replica",
    "pystore/segments/order.py": "values alone: unit/segments",
    "pystore/demo/cluster_watch.py": "tested by cluster/test_recovery_demo",
    "pystore/demo/host_programs.py": "tested by cluster/test_recovery_demo",
    "pystore/demo/recovery_run.py": "tested by cluster/test_recovery_demo",
    "pystore/demo/recovery_story.py": "tested by cluster/test_recovery_demo",
    "pystore/salvage/report.py": "values alone: salvage/test_run",
    "pystore/broker/mend_jobs.py": "tested by cluster/test_mended_brokers",
    "pystore/segments/copy.py": "an interface and values: segments/test_mending",
    "pystore/segments/mend_plan.py": "tested by segments/test_mending",
    "pystore/cli/lib/controller_config.py": "tested by cli/recovery/test_records",
    "pystore/cli/recovery/segment_text.py": "tested by cli/recovery/test_segments",
    "pystore/cli/recovery/status_text.py": "tested by cli/recovery/test_status",
    "pystore/segments/mend_report.py": "tested by cli/recovery/test_mend",
    "pystore/segments/open_copies.py": "tested by segments/test_peer",
    "pystore/segments/peer_copy.py": "tested by segments/test_peer",
    "pystore/segments/peer_protocol.py": "tested by segments/test_peer",
    "pystore/segments/peer_server.py": "tested by segments/test_peer",
    "pystore/segments/pull.py": "tested by segments/test_mending",
    "pystore/spark/peers/judge.py": "pure: tested by spark/peers/test_run",
    "pystore/spark/task_runner.py": "tested by spark/test_session and the jobs",
    "pystore/compare/report.py": "values alone: compare/test_run",
    "pystore/damage/torn_record.py": "tested by crash/test_every_byte",
    "controller/model/commands.py": "values alone: controller/decide/test_dispatch",
    "controller/model/events.py": "values alone: controller/model/test_apply",
    "controller/model/replies.py": "values alone: controller/model/test_views",
    "controller/server/context.py": "values alone",
    "controller/server/describe.py": "tested by cli/admin/test_admin",
    "controller/server/leadership.py": "tested by controller/server/test_controller",
    "controller/server/notifier.py": "tested by controller/server/test_controller",
    "controller/server/term.py": "tested by controller/server/test_controller",
    "ha/insync/facts.py": "values alone: ha/insync/test_in_sync",
    "ha/wire/effects.py": "values alone: ha/slave/test_effects, ha/master/test_effects",
    "pystore/cli/admin/audit.py": "tested by cli/admin/test_users",
    "pystore/cli/admin/controllers.py": "tested by cli/admin/test_admin",
    "pystore/cli/admin/epochs.py": "tested by cli/admin/test_admin",
    "pystore/cli/admin/policy.py": "tested by cli/admin/test_admin",
    "pystore/cli/admin/sets.py": "tested by cli/admin/test_admin",
    "pystore/clocks.py": "reads the machine's clocks",
    "pystore/errors.py": "tested by bindings/test_ffi, where errors are raised",
    "pystore/fs/layout.py": "tested by store/test_open",
    "pystore/recovery/segments.py": "tested by recovery/test_survey",
    "pystore/remoting/operator_headers.py": "values alone",
    "pystore/store/prepend.py": "tested by store/test_mend",
    "pystore/store/queue_table.py": "tested by store/test_dispatch",
    "pystore/store/readable_queues.py": "tested by store/test_store",
    "pystore/store/writer.py": "tested by store/test_open",
    "pystore/verify/end_facts.py": "tested by verify/test_store",
}


def _files(*suffixes: str, folders: tuple[str, ...] = FOLDERS) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in suffixes
        and "golden" not in path.relative_to(ROOT).parts
        and not any(above.is_symlink() for above in path.parents)
    )


class _Facts(NamedTuple):
    """
    What the tests ask of a Python file. Its tree is dropped: with all trees the garbage
    collector would take longer than the parser.

    Attributes:
        functions: name, lines, and whether it has a docstring.
        imports: names of ``from`` imports, of modules and of what they take there.
        text_lines: those of texts that stand alone, as docstrings do.
    """

    functions: list[tuple[str, int, bool]]
    imports: set[str]
    text_lines: set[int]


@cache
def _facts(path: Path) -> _Facts:
    facts = _Facts([], set(), set())
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            facts.functions.append((node.name, lines, bool(ast.get_docstring(node))))
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{name.name}" for name in node.names)
            facts.imports.update((node.module, *names))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            assert node.end_lineno is not None
            if isinstance(node.value.value, str):
                facts.text_lines.update(range(node.lineno, node.end_lineno + 1))
    return facts


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for name, lines, _ in _facts(path).functions:
        yield name, lines


def _c_functions(path: Path) -> Iterator[tuple[str, int]]:
    """
    Yields the functions of a C file, which the layout begins in column 0.
    """
    text = path.read_text(encoding="utf-8")
    for match in C_FUNCTION.finditer(text):
        yield match[1], match[0].count("\n") + 1


def _code_lines(path: Path) -> int:
    """
    Counts the lines of a Python file that hold code.
    """
    text = path.read_text(encoding="utf-8")
    code = {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    return len(code - _facts(path).text_lines)


_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def test_a_file_with_much_code_has_a_reason() -> None:
    """
    Length is a question: does the file hold two ideas? The answer is in the list.
    """
    long = {
        _name(path)
        for path in _files(".py")
        if path.read_bytes().count(b"\n") > CODE_LINES < _code_lines(path)
    }

    assert sorted(LONG) == sorted(long)


def test_no_file_is_longer_than_six_hundred_lines() -> None:
    """
    There are no exceptions.
    """
    sizes = {
        _name(path): path.read_bytes().count(b"\n")
        for path in _files(".py", ".c", ".h")
    }

    assert {} == {name: size for name, size in sizes.items() if size > FILE_LINES}


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    """
    Without a reason its code belongs in the importing module.
    """
    importers: dict[str, set[str]] = {}
    for path in _files(".py", folders=SOURCE):
        for name in _facts(path).imports:
            importers.setdefault(name, set()).add(_name(path))
    small = [
        _name(path)
        for path in _files(".py", folders=SOURCE)
        if path.name != "__init__.py"
        and path.read_bytes().count(b"\n") < SMALL_LINES
        and len(importers.get(_module(path), ())) <= 1
    ]

    assert sorted(SMALL) == sorted(small)


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "pystore" else ("pystore", *parts))


def test_no_function_is_longer_than_a_screen() -> None:
    """
    A function past the limit has a part that deserves a name.
    """
    long = [
        f"{_name(path)}: {name}: {lines} lines"
        for path in _files(".py", ".c", ".h")
        for name, lines in (
            _python_functions(path) if path.suffix == ".py" else _c_functions(path)
        )
        if lines > FUNCTION_LINES
    ]

    assert [] == long


def test_no_line_of_c_is_wider_than_half_a_screen() -> None:
    """
    Two files fit side by side on a screen.
    """
    wide = [
        f"{_name(path)}:{number}"
        for path in _files(".c", ".h")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > C_COLUMNS
    ]

    assert [] == wide


def test_every_module_has_a_test_file_in_the_folder_of_its_package() -> None:
    """
    The tests of ``pystore/a/b.py`` are ``tests/unit/a/test_b.py``; those that need a
    Spark session are under ``tests/spark``.
    """
    untested = []
    for path in _files(".py", folders=SOURCE):
        folder = path.parent.relative_to(ROOT).as_posix()
        folder = folder.removeprefix("pystore").strip("/")
        file = f"test_{path.stem.strip('_')}.py"
        places = (UNIT / folder / file, SPARK / folder.removeprefix("spark/") / file)
        if path.name != "__init__.py" and not any(place.exists() for place in places):
            untested.append(_name(path))

    assert sorted(UNTESTED) == sorted(untested)


def test_every_folder_of_unit_tests_is_a_package_of_the_source() -> None:
    """
    A test whose package moved moves with it.
    """
    folders = {path.parent.relative_to(UNIT) for path in UNIT.rglob("test_*.py")}
    packages = [ROOT / "pystore" / folder for folder in folders]

    assert [] == [str(one) for one in packages if not (one / "__init__.py").exists()]


def test_every_test_has_a_docstring() -> None:
    """
    A failing test explains itself.
    """
    silent = [
        f"{_name(path)}: {name}"
        for path in _files(".py", folders=("tests", "bench"))
        for name, _, has_docstring in _facts(path).functions
        if name.startswith("test_") and not has_docstring
    ]

    assert [] == silent


def test_setup_lists_every_package() -> None:
    """
    The build uses this list: a wheel lacks every package that is not in it.
    """
    listed = re.search(r"packages=(\[.*?\])", (ROOT / "setup.py").read_text(), re.S)
    folders = [
        path.parent.relative_to(ROOT).parts
        for path in _files(".py", folders=SOURCE)
        if path.name == "__init__.py"
    ]
    names = [".".join(f if f[0] == "pystore" else ("pystore", *f)) for f in folders]

    assert listed
    assert sorted(names) == ast.literal_eval(listed[1])


@pytest.mark.parametrize("name", ["ha", "controller"])
def test_the_links_for_type_checkers_lead_to_the_folders(name: str) -> None:
    """
    Static tools do not read ``package_dir``; they follow these links.
    """
    link = ROOT / "pystore" / name

    assert (ROOT / name / "__init__.py").samefile(link / "__init__.py")
    assert Path("..") / name == link.readlink()


def test_each_long_test_is_there() -> None:
    """
    A renamed one would be run each time.
    """
    missing = [
        f"{file}::{name}"
        for file, name in sorted(long_tests())
        if not (ROOT / file).exists()
        or (name and f"def {name}(" not in (ROOT / file).read_text("utf-8"))
    ]
    assert [] == missing


@pytest.mark.slow
def test_mypy_checks_every_file() -> None:
    """
    Success on only some of the files would hide errors.
    """
    command = [sys.executable, "-m", "mypy"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    files = len(_files(".py", ".pyi", folders=SOURCE))

    assert f"Success: no issues found in {files} source files\n" == run.stdout
