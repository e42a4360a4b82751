"""
Whether the system answers for the parts of a store.

A folder that may not be entered, a stale mount, a link loop, a segment that may not be
read: what the system does not show is neither whole nor damaged.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pystore.fs.atomic import storage_error
from pystore.fs.layout import COMMIT_LOG, CONSUME_QUEUE, META_NAME

__all__ = ["require_answers", "require_readable"]


def require_answers(root: Path) -> None:
    """
    Looks at the folders of a store; one that is missing is an answer.

    Raises:
        StorageError: the system refused, or a link leads nowhere.
    """
    for path in (root, *(root / one for one in (COMMIT_LOG, META_NAME, CONSUME_QUEUE))):
        try:
            path.stat()
        except FileNotFoundError as error:
            if path.is_symlink():
                raise storage_error("follow the link", path, error) from error
        except NotADirectoryError:
            # A file has the name of a folder above; `require_store` says it.
            return
        except OSError as error:
            # The error of the system does not name the path.
            raise storage_error("look at", path, error) from error


def require_readable(path: Path) -> None:
    """
    Opens a segment for reading. One that was deleted meanwhile is another's business.

    Raises:
        StorageError: the system refused.
    """
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        # A missing file is damage, or was deleted by retention.
        if error.errno != errno.ENOENT:
            raise storage_error("open", path, error) from error
