"""
Copies of a log by their names on a command line: the directory of a store, or the
address of a peer that serves one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from pystore.errors import InvalidError
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls
from pystore.segments.copy import LogCopy
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.store_copy import StoreCopy

__all__ = ["open_copies"]


@contextmanager
def open_copies(
    names: Iterable[str], tls: ClientTls | None = None
) -> Iterator[list[LogCopy]]:
    """
    Opens copies; connections to peers are closed afterwards.

    Args:
        names: of each one ``HOST:PORT``, or a directory; one that exists is taken as
            such.
        tls: of connections to peers; ``None``: plain bytes.

    Raises:
        InvalidError: a name is neither.
        PystoreError: as `StoreCopy` and `PeerCopy`.
    """
    with ExitStack() as stack:
        yield [_opened(name, tls, stack) for name in names]


def _opened(name: str, tls: ClientTls | None, stack: ExitStack) -> LogCopy:
    if os.path.isdir(name):
        return StoreCopy(Path(name))
    try:
        parse_address(name)
    except InvalidError as error:
        # Nothing else has such a name.
        raise InvalidError(
            f"{name}: neither the directory of a store nor HOST:PORT"
        ) from error
    return stack.enter_context(closing(PeerCopy(name, tls)))
