"""
Builds the wheel: the packages, where their code lives, and the C core.

Everything else about the project is in ``pyproject.toml``, except the links: those of
the description are made absolute here, and those of the metadata lead to the repository
that builds.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "wheels"))
from readme import (  # noqa: E402  from the folder just added
    absolute_links,
    project_urls,
    repository,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
SOURCE = repository(os.environ)
README = absolute_links(
    (ROOT / "README.md").read_text(encoding="utf-8"), SOURCE, PROJECT["version"]
)

# A free-threaded interpreter has no abi3: its wheel gets an ordinary tag.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
WHEEL = {} if FREE_THREADED else {"py_limited_api": "cp311"}

setup(
    long_description=README,
    long_description_content_type="text/markdown",
    project_urls=project_urls(SOURCE, PROJECT["version"]),
    packages=[
        "pystore",
        "pystore.access",
        "pystore.autorecovery",
        "pystore.bindings",
        "pystore.broker",
        "pystore.cli",
        "pystore.cli.admin",
        "pystore.cli.lib",
        "pystore.cli.recovery",
        "pystore.cli.spark",
        "pystore.compare",
        "pystore.consumequeue",
        "pystore.controller",
        "pystore.controller.client",
        "pystore.controller.decide",
        "pystore.controller.identity",
        "pystore.controller.liveness",
        "pystore.controller.model",
        "pystore.controller.protocol",
        "pystore.controller.server",
        "pystore.core",
        "pystore.damage",
        "pystore.demo",
        "pystore.doctor",
        "pystore.epochs",
        "pystore.events",
        "pystore.fs",
        "pystore.ha",
        "pystore.ha.insync",
        "pystore.ha.master",
        "pystore.ha.slave",
        "pystore.ha.wire",
        "pystore.message",
        "pystore.metastore",
        "pystore.nameserver",
        "pystore.net",
        "pystore.rates",
        "pystore.records",
        "pystore.recovery",
        "pystore.remoting",
        "pystore.rocketmq",
        "pystore.salvage",
        "pystore.segments",
        "pystore.spark",
        "pystore.spark.compact",
        "pystore.spark.export",
        "pystore.spark.peers",
        "pystore.spark.plan",
        "pystore.spark.scan",
        "pystore.spark.source",
        "pystore.spark.verify",
        "pystore.store",
        "pystore.verify",
    ],
    package_dir={"pystore.controller": "controller", "pystore.ha": "ha"},
    package_data={
        "pystore": ["py.typed", "_core.pyi"],
        "pystore.spark": ["*.properties"],
        "pystore.spark.verify": ["*.html"],
    },
    cffi_modules=["csrc/ffi_build.py:ffibuilder"],
    options={"bdist_wheel": WHEEL},
    include_package_data=False,
    zip_safe=False,
)
