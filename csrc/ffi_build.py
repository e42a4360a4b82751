"""
Turns the public headers into the Python extension ``pystore._core``.

The headers *are* the cdef: there is no second list of declarations that could
drift. They are written in the subset that cffi parses, so all that has to go are
preprocessor lines other than integer constants, and the export marker.

``PYSTORE_PORTABLE=1`` builds without hardware checksums, ``fallocate`` and
``sync_file_range``: the build that other systems get.
"""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

from cffi import FFI

CSRC = Path(__file__).parent
_NAMES = (
    "pystore.h",
    "columns.h",
    "json_lines.h",
    "wire.h",
    "waiters.h",
    "receive.h",
    "lock.h",
    "control.h",
    "ill.h",
    "reader.h",
    "append_frame.h",
)
HEADERS = tuple(CSRC / name for name in _NAMES)

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_CPLUSPLUS = re.compile(r"^#ifdef __cplusplus$.*?^#endif[^\n]*$", re.M | re.DOTALL)
_CONSTANT = re.compile(r"#define\s+PS_\w+\s+-?(0x[0-9a-fA-F]+|\d+)[uUlL]*")

COMPILE_ARGS = [
    "-std=c11",
    "-O3",
    "-g",
    "-D_GNU_SOURCE",
    # Python builds define NDEBUG; our asserts guard our own mistakes and stay.
    "-UNDEBUG",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
]


def cdef_text(header: str) -> str:
    """
    Returns the declarations of *header* as cffi takes them.

    Args:
        header: the text of a header, or of several behind each other.
    """

    def keep(line: str) -> bool:
        return not line.startswith("#") or bool(_CONSTANT.fullmatch(line))

    # Comments first: a `#` or a brace inside of one is prose.
    text = _CPLUSPLUS.sub("", _COMMENT.sub(" ", header))
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    kept = "\n".join(line for line in lines if line and keep(line))
    return re.sub(r"\bPS_API\b\s*", "", kept) + "\n"


def header_text() -> str:
    """
    Returns the text of the public headers, behind each other.
    """
    return "".join(path.read_text(encoding="utf-8") for path in HEADERS)


def sources() -> list[str]:
    """
    Returns every C file of the core, relative to the root of the project.
    """
    return sorted(path.as_posix() for path in CSRC.glob("*.c"))


def define_macros() -> list[tuple[str, str | None]]:
    """
    Returns the macros that the environment asks for.
    """
    portable = os.environ.get("PYSTORE_PORTABLE") == "1"
    return [("PS_PORTABLE", "1")] if portable else []


def builder() -> FFI:
    """
    Returns the builder that ``setup.py`` runs.
    """
    ffi = FFI()
    ffi.cdef(cdef_text(header_text()))
    ffi.set_source(
        "pystore._core",
        "".join(f'#include "{path.name}"\n' for path in HEADERS),
        sources=sources(),
        include_dirs=[CSRC.as_posix()],
        depends=sorted(path.as_posix() for path in CSRC.glob("*.h")),
        define_macros=define_macros(),
        extra_compile_args=COMPILE_ARGS,
        libraries=["pthread"],
        py_limited_api=not sysconfig.get_config_var("Py_GIL_DISABLED"),
    )
    return ffi


ffibuilder = builder()
