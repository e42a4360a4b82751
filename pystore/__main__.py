"""
``python -m pystore`` is the command line, as is the installed ``pystore``.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """
    Runs the command line.
    """
    try:
        from pystore.cli import main as command  # noqa: PLC0415
    except KeyboardInterrupt:
        # Ctrl-C while Python reads the modules: there is no command yet.
        sys.stderr.write("pystore: interrupted\n")
        sys.exit(_INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
