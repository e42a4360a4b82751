"""
``python -m pystore`` is the command line.
"""

from __future__ import annotations

from pystore.cli import main

if __name__ == "__main__":
    main()
