"""
Without the core: the same rows, and the same text for every damage.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import VARIANTS, GoldenStore, apply_patch
from lib.spark.reading import make_store, read

from pystore.errors import PystoreError
from pystore.spark.scan import task
from pystore.spark.scan.python_segment import PythonSegment


@pytest.mark.parametrize(
    ("store", "damage"),
    VARIANTS,
    ids=[f"{store.name}-{number}" for number, (store, _) in enumerate(VARIANTS)],
)
def test_every_damage_is_reported_alike_with_and_without_the_core(
    store: GoldenStore,
    damage: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    The same rows, ranges and texts, or the same error.
    """
    root = store.extract(tmp_path)
    apply_patch(root, damage["patch"])

    def result() -> list[dict[str, Any]] | str:
        try:
            return read(root, on_damage="report")
        except PystoreError as error:
            return str(error)

    with_core = result()
    monkeypatch.setattr(task, "_open", PythonSegment)
    assert with_core == result()


def test_python_files_alone_are_enough_for_a_worker(tmp_path: Path) -> None:
    """
    They come as a zip without the core, as docs/spark.md shows.
    """
    root, shipped = make_store(tmp_path), tmp_path / "pystore.zip"
    package = Path(task.__file__).parents[2]
    with zipfile.ZipFile(shipped, "w") as archive:
        for path in package.rglob("*.py"):
            archive.write(path, path.relative_to(package.parent))
    script = (
        "import json, sys\n"
        f"sys.path.insert(0, {str(shipped)!r})\n"
        "sys.modules['pystore._core'] = None\n"  # an editable install would find it
        "from pystore.spark.plan.schema import choose_columns\n"
        "from pystore.spark.scan.task import read_split\n"
        "from pystore.spark.plan.selection import Selection\n"
        "from pystore.spark.plan.split import Split\n"
        f"split = Split({str(root)!r}, 0, 65536, 0, 65536, 65536)\n"
        "columns = choose_columns(['offset', 'topic', 'keys'], with_body=False,"
        " with_damage=False)\n"
        "batches = read_split(split, columns, Selection(), on_damage='skip',"
        " rows_per_batch=100)\n"
        "rows = [row for batch in batches for row in batch.to_pylist()]\n"
        "assert 'pystore.core.log_reader' not in sys.modules\n"
        f"assert sys.modules['pystore'].__file__.startswith({str(shipped)!r})\n"
        "print(json.dumps(rows))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )

    wanted = read(root, ["offset", "topic", "keys"], to_offset=65536)
    assert len(wanted) > 100
    # The end is within a record, so the last record is missing.
    assert wanted[:-1] == json.loads(done.stdout)[: len(wanted) - 1]
