"""
Writes ``pystore/_core.pyi``, the types of the C module, from its headers.

Whole numbers are ``int``; whatever points into memory is ``CData``, because
cffi takes bytes, buffers and its own pointers there.

Run ``python csrc/stub.py`` after a change of a header; a test compares.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from pathlib import Path

from ffi_build import cdef_text, header_text
from pycparser import c_ast, c_parser

STUB = Path(__file__).parent.parent / "pystore" / "_core.pyi"

# What cffi knows without being told; pycparser has to be told.
_KNOWN = "".join(
    f"typedef int {name};\n"
    for name in (
        *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        "size_t",
        "ssize_t",
        "bool",
    )
)

_TOP = '''\
"""
The types of the C core, made from its headers by csrc/stub.py.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

CData: TypeAlias = Any

class FFI:
    NULL: Final[CData]
    errno: int
    error: type[Exception]
    def addressof(self, cdata: CData, *fields: str | int) -> CData: ...
    def release(self, cdata: CData) -> None: ...
    def buffer(self, cdata: CData, size: int = ...) -> CData: ...
    def cast(self, cdecl: str, value: CData) -> CData: ...
    def from_buffer(
        self, cdecl: str, python_buffer: object, require_writable: bool = ...
    ) -> CData: ...
    def gc(
        self, cdata: CData, destructor: Callable[[CData], object], size: int = ...
    ) -> CData: ...
    def memmove(self, dest: CData, src: CData, n: int) -> None: ...
    def new(self, cdecl: str, init: object = ...) -> CData: ...
    def sizeof(self, cdecl: str | CData) -> int: ...
    def string(self, cdata: CData, maxlen: int = ...) -> bytes: ...
    def typeof(self, cdecl: str | CData) -> CData: ...
    def unpack(self, cdata: CData, length: int) -> CData: ...

class Lib:
'''


class Stub(c_ast.NodeVisitor):  # type: ignore[misc]
    """
    Collects one line per constant and function, in the headers' order.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pointers: set[str] = set()

    def visit_Typedef(self, node: c_ast.Typedef) -> None:  # noqa: N802
        """
        Remembers whether a name stands for a number or for memory.
        """
        if self.spell(node.type) != "int":
            self.pointers.add(node.name)
        self.generic_visit(node)

    def visit_Enumerator(self, node: c_ast.Enumerator) -> None:  # noqa: N802
        """
        Adds a constant.
        """
        self.lines.append(f"    {node.name}: Final[int]")

    def visit_Decl(self, node: c_ast.Decl) -> None:  # noqa: N802
        """
        Adds a function.
        """
        if isinstance(node.type, c_ast.FuncDecl):
            self.lines.append(self.function(node.name, node.type))
        else:
            self.generic_visit(node)

    def function(self, name: str, node: c_ast.FuncDecl) -> str:
        """
        Returns the declaration of a function in Python.
        """
        head = f"    def {name}(self"
        arguments = list(self.arguments(node.args))
        result = f"-> {self.spell(node.type)}: ..."
        line = ", ".join((head, *arguments)) + f") {result}"
        if len(line) <= 88:
            return line
        inner = ", ".join(("self", *arguments))
        if len(inner) <= 80:
            return f"    def {name}(\n        {inner}\n    ) {result}"
        rows = "".join(f"        {row},\n" for row in ("self", *arguments))
        return f"    def {name}(\n{rows}    ) {result}"

    def arguments(self, parameters: c_ast.ParamList | None) -> Iterator[str]:
        """
        Yields the arguments with their types; ``void`` is none.
        """
        for node in parameters.params if parameters else ():
            spelled = self.spell(node.type)
            if spelled != "None":
                name = node.name + "_" * keyword.iskeyword(node.name)
                yield f"{name}: {spelled}"

    def spell(self, node: c_ast.Node) -> str:
        """
        Returns what a C type is in Python.
        """
        if not isinstance(node, c_ast.TypeDecl):
            return "CData"
        if isinstance(node.type, c_ast.Enum):
            return "int"
        if not isinstance(node.type, c_ast.IdentifierType):
            return "CData"
        (*_, name) = node.type.names
        if name in ("float", "double"):
            return "float"
        return {"void": "None"}.get(name, "CData" if name in self.pointers else "int")


def stub_text(header: str) -> str:
    """
    Returns the text of the stub for *header*, the text of the public headers.
    """
    cdef = cdef_text(header)
    constants = re.findall(r"^#define\s+(\w+)", cdef, re.M)
    plain = re.sub(r"^#.*$", "", cdef, flags=re.M)
    for name, value in re.findall(r"^#define\s+(\w+)\s+(\S+)", cdef, re.M):
        plain = re.sub(rf"\b{name}\b", value, plain)
    stub = Stub()
    stub.visit(c_parser.CParser().parse(_KNOWN + plain))
    rows = [f"    {name}: Final[int]" for name in constants] + stub.lines
    return _TOP + "\n".join(rows) + "\n\nffi: FFI\nlib: Lib\n"


if __name__ == "__main__":
    STUB.write_text(stub_text(header_text()), encoding="utf-8")
