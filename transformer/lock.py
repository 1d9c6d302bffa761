"""One process at a time in a folder."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer.signals import Interrupted, StopSignals, say

REMINDER = 60  # seconds


@contextmanager
def alone(folder: Path, stop: StopSignals) -> Iterator[None]:
    """Hold `folder`/lock, which the system frees when its holder dies; wait while another process holds it, and say so.

    When Snakemake is killed its jobs live on: a second training of the same run would write over the first one's files.
    Raises Interrupted on a stop signal.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a+", encoding="utf-8") as file:
        waited = 0
        while not taken(file.fileno()):
            if stop.received:
                raise Interrupted(f"{stop.received} while waiting for {folder}")
            if waited % REMINDER == 0:
                file.seek(0)
                say(f"waiting: {folder} is in use by {file.read() or 'another process'}")
            waited += 1
            time.sleep(1)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def taken(descriptor: int) -> bool:
    """Whether this process now has the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
