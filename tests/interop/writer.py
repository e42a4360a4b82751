"""
Appends to a store until it is killed, and prints the acknowledged records.

    python writer.py STORE SEGMENT_SIZE

One line per record: its offset, and its number, which the body contains.
"""

from __future__ import annotations

import sys
from itertools import count

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog


def message(number: int) -> Message:
    """
    Returns the message of this number; sizes and topics vary.
    """
    return Message(
        f"Topic-{number % 3}",
        f"record {number} ".encode() * (1 + number % 7),
        queue_id=number % 4,
        keys=f"key{number}",
        tags="even" if number % 2 == 0 else None,
    )


if __name__ == "__main__":
    with CommitLog(sys.argv[1], segment_size=int(sys.argv[2])) as log:
        for number in count():
            print(log.append(message(number)).offset, number, flush=True)
