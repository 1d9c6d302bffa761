"""A lock that lets one training at a time work in a folder."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from transformer.files import InputError
from transformer.runtime.signals import Interrupted, StopSignals, say

if TYPE_CHECKING:  # it loads torch, which doctor's checks of locks do without
    from transformer.runtime.distributed import World

REMINDER = 60  # seconds


@contextmanager
def alone(folder: Path, world: "World", stop: StopSignals) -> Iterator[None]:
    """Hold `folder`/lock, which the system frees when its holder dies; wait while another process holds it, and say so.

    When Snakemake is killed its jobs live on: a second training of the same run would write over the first one's files.
    Rank 0 takes the lock, and all wait for it. Raises Interrupted on a stop signal to any process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a+", encoding="utf-8") as file:
        waited = 0
        while not world.agree(world.rank == 0 and taken(file)):
            for signal in filter(None, world.gather(stop.received)):
                raise Interrupted(f"{signal}: waiting for {folder}")
            if world.rank == 0 and waited % REMINDER == 0:
                file.seek(0)
                say(f"waiting: {folder} is in use by {file.read() or 'another process'}")
            waited += 1
            time.sleep(1)
        if world.rank == 0:
            job = os.environ.get("SLURM_JOB_ID")
            file.truncate(0)
            file.write(f"{f'job {job}, ' if job else ''}process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield


def taken(file: IO) -> bool:
    """Try to take the lock, and return whether that worked. Raises InputError on a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InputError(f"{file.name}: expected a file system that can lock files, found: {error.strerror}") from error
    return True
