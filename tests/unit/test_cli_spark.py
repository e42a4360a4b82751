"""
``pystore spark``: the group of the jobs.
"""

from __future__ import annotations

from command_line import run


def test_help_says_what_the_jobs_need() -> None:
    """
    Java, the extra, and how to submit a job to a cluster.
    """
    told = run("spark", "--help").stdout

    assert "Java 17 or 21" in told
    assert "spark-submit" in told
