"""
Tasks go to executors as plain values, and their results come back.
"""

from __future__ import annotations

import operator
import os
from pathlib import Path

import pytest
from lib.spark.verify_job import make_replicas, run_here
from pyspark import TaskContext
from pyspark.sql import SparkSession

from pystore.errors import InvalidError, UnavailableError
from pystore.spark.verify.executors import on_spark
from pystore.spark.verify.plan import plan_store, plan_tasks
from pystore.spark.verify.task import check_segment

MIB = 1 << 20


def test_results_come_back_in_the_order_of_the_tasks(session: SparkSession) -> None:
    """
    For any partitioning.
    """
    run = on_spark(session)

    found = run(range(100), operator.neg, lambda _: 100 * MIB)

    assert [-number for number in range(100)] == found


def test_tasks_run_in_other_processes(session: SparkSession) -> None:
    """
    So files that were opened here cannot be used there.
    """
    found = on_spark(session)([1, 2], lambda _: os.getpid(), lambda _: 1)

    assert os.getpid() not in found


def test_without_tasks_nothing_runs(session: SparkSession) -> None:
    """
    No Spark job is started.
    """
    assert [] == on_spark(session)([], operator.neg, lambda _: 1)


@pytest.mark.parametrize(
    ("count", "size", "partitions"), [(40, 64 * MIB, 10), (40, 1, 2), (3, 2**40, 3)]
)
def test_tasks_are_partitioned_by_their_size(
    session: SparkSession, count: int, size: int, partitions: int
) -> None:
    """
    256 MiB to a partition, but no idle core and no empty partition.
    """

    def partition(_task: int) -> int:
        context = TaskContext.get()
        assert context is not None
        return context.partitionId()

    found = on_spark(session)(range(count), partition, lambda _: size)

    assert set(range(partitions)) == set(found)


def test_a_task_that_fails_is_a_one_line_error(session: SparkSession) -> None:
    """
    Without the traces of two languages.
    """

    def fail(_task: int) -> None:
        raise InvalidError("this one is wrong")

    with pytest.raises(UnavailableError, match="this one is wrong") as caught:
        on_spark(session)([1], fail, lambda _: 1)

    assert "\n" not in str(caught.value)


def test_executors_check_segments_like_the_driver(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    The tasks are equal, and so are the results except for their time.
    """
    roots = make_replicas(tmp_path, 2, 400, with_queues=True)
    tasks = plan_tasks([plan_store(root, "g") for root in roots])

    there = on_spark(session)(tasks, check_segment, lambda task: int(task.size))
    here = run_here(tasks, check_segment, lambda task: int(task.size))

    for one in [*there, *here]:
        one.seconds = 0.0
    assert here == there
