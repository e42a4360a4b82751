"""
The C module has the names of its headers, and the stub lists the same.
"""

from __future__ import annotations

import ffi_build
import stub

from pystore import _core

HEADER = ffi_build.header_text()


def test_the_committed_stub_is_generated_from_the_headers() -> None:
    """
    A changed header without ``python csrc/stub.py`` is noticed.
    """
    assert stub.stub_text(HEADER) == stub.STUB.read_text(encoding="utf-8")


def test_the_built_module_has_every_name_of_the_headers() -> None:
    """
    Python can call every function of the headers.
    """
    lines = stub.stub_text(HEADER).split("class Lib:")[1].splitlines()
    names = {
        line.split(":")[0].split("(")[0].removeprefix("    def ").strip()
        for line in lines
        if line.startswith(("    PS_", "    def "))
    }

    assert names == set(dir(_core.lib))


def test_the_cdef_keeps_all_but_preprocessor_lines_comments_and_the_marker() -> None:
    """
    The tool cffi reads the text of the header itself.
    """
    header = """\
/* # not a line for the preprocessor { */
#ifndef PYSTORE_H
#include <stdint.h>
#define PS_API __attribute__((visibility("default")))
#define PS_LEAST -3 /* kept */
#define PS_HEX 0x1Fu
#ifdef __cplusplus
extern "C" {
#endif
PS_API int32_t ps_one(void); // one
#endif
"""

    cdef = ffi_build.cdef_text(header)

    assert "#define PS_LEAST -3\n#define PS_HEX 0x1Fu\nint32_t ps_one(void);\n" == cdef
