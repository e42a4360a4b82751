"""
What every test may use: the golden stores, and the budget of random tests.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from lib.oracle.golden_data import STORES, GoldenStore
from lib.samples import keep_sample, long_tests

# A shell that runs the tests in the background ignores Ctrl-C for them, and the
# processes that they start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fast", max_examples=50, deadline=None, print_blob=True)
settings.register_profile("few", parent=settings.get_profile("fast"), max_examples=20)
settings.register_profile(
    "thorough", parent=settings.get_profile("fast"), max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """
    Leaves out all but a sample of the long tests, if ``LONG_SAMPLE`` says how many
    percent stay.
    """
    percent = int(os.environ.get("LONG_SAMPLE", "100"))
    if percent == 100:
        return
    known = long_tests()
    among = [one for one in items if not known.isdisjoint(_keys(one))]
    keep_sample(config, items, among, max(1, len(among) * percent // 100))


def _keys(item: pytest.Item) -> set[tuple[str, str]]:
    file, name = item.nodeid.partition("::")[0], item.name.partition("[")[0]
    folders = ((str(one), "") for one in PurePosixPath(file).parents)
    return {(file, name), (file, ""), *folders}


def pytest_report_header() -> str:
    """
    Says which build is tested: the checkout's, a portable one, a wheel's.
    """
    spec = find_spec("pystore._core")
    return f"core: {spec.origin if spec else 'not built'}"


def pytest_collection_finish() -> None:
    """
    Spares the garbage collector what was collected: thousands of tests, which all live
    as long as the run.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """
    A directory on the disk of the checkout, also where ``TMPDIR`` is in memory.
    """
    build = Path(__file__).parents[1] / "build"
    build.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="disk-", dir=build) as name:
        yield Path(name)


@pytest.fixture
def other_path(tmp_path: Path) -> Iterator[Path]:
    """
    A directory on another file system than ``tmp_path``.
    """
    checkout = Path(__file__).parents[1]
    for place in (Path("/dev/shm"), Path("/var/tmp"), Path("/tmp"), checkout):
        is_usable = place.is_dir() and os.access(place, os.W_OK)
        if is_usable and place.stat().st_dev != tmp_path.stat().st_dev:
            with TemporaryDirectory(prefix="pystore-", dir=place) as name:
                yield Path(name)
            return
    pytest.skip("there is no second file system")


@pytest.fixture(params=STORES, ids=lambda store: store.name)
def golden_store(request: pytest.FixtureRequest) -> GoldenStore:
    """
    Each golden store in turn.
    """
    store: GoldenStore = request.param
    return store


@pytest.fixture
def golden_root(golden_store: GoldenStore, tmp_path: Path) -> Path:
    """
    The root of a fresh copy of ``golden_store``.
    """
    return golden_store.extract(tmp_path)
