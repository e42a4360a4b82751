"""
``make quick`` chooses the tests nearest to a change that fit into a minute.
"""

from __future__ import annotations

import quick
from lib.imports import ROOT

REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.fs.test_atomic" name="a" time="0.5"/>
<testcase classname="tests.unit.fs.test_atomic" name="b" time="0.25"/>
</testsuite></testsuites>"""


def test_a_changed_module_chooses_its_test_its_package_and_its_importers() -> None:
    """
    The order is this one; the rules for all files come second.
    """
    chosen = quick.choose(["pystore/recovery/plan.py"])
    tests = list(chosen)

    assert "tests/unit/recovery/test_plan.py" == tests[0]
    assert "tests/unit/test_layout.py" in tests[:3]
    assert "pystore/recovery/plan.py" == chosen["tests/unit/recovery/test_plan.py"]
    assert (
        "the package of tests/unit/recovery"
        == chosen["tests/unit/recovery/test_survey.py"]
    )
    assert (
        "importers of pystore.recovery.plan" == chosen["tests/unit/store/test_open.py"]
    )
    assert "tests/unit/ha/wire/test_v3.py" not in tests


def test_other_changed_files_choose_the_tests_that_read_them() -> None:
    """
    A file of the C core, a helper, a page; a changed test chooses itself.
    """
    assert "tests/unit/bindings/test_ffi.py" in quick.choose(["csrc/append.c"])
    assert "tests/unit/cli/test_info.py" in quick.choose(["tests/lib/command_line.py"])
    assert "tests/docs/test_pages.py" in quick.choose(["docs/format.md"])
    assert "tests/unit/net/test_receiver.py" in quick.choose(
        ["tests/unit/net/test_receiver.py"]
    )


def test_every_chosen_file_exists() -> None:
    """
    This holds even after a module or its test was deleted.
    """
    chosen = quick.choose(["pystore/core/gone.py", "tests/unit/core/test_gone.py"])

    assert chosen
    assert all((ROOT / test).is_file() for test in chosen)


def test_tests_are_taken_until_the_time_is_used_up() -> None:
    """
    A file that needs too long does not exclude shorter ones after it.
    """
    times = {"a": 5.0, "b": 50.0, "c": 4.0}

    assert ["a", "c", "unknown"] == quick.within(["a", "b", "c", "unknown"], times, 10)


def test_the_times_of_a_file_are_added_up() -> None:
    """
    The report of an earlier run has the times of single tests.
    """
    assert {"tests/unit/fs/test_atomic.py": 0.75} == quick.measured(REPORT)
