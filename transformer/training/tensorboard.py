"""The files that TensorBoard shows.

They are written at once, with parts of tensorboardX: its SummaryWriter leaves the writing to a thread, and waits for
ever for that thread once a full disk has ended it.
"""

import time
from contextlib import suppress
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar


class Board:
    """Curves over steps, one file per start of a run."""

    def __init__(self, folder: Path, first: int):
        """Begin a file. first: this start's first step; what an earlier start wrote from there on is not shown."""
        folder.mkdir(parents=True, exist_ok=True)
        self.writer = EventsWriter(str(folder / "events"), f".{time.time_ns()}")
        self.add(Event(step=first, session_log=SessionLog(status=SessionLog.START)))

    def write(self, step: int, entry: dict[str, float]) -> None:
        for name, value in entry.items():
            self.add(Event(step=step, summary=scalar(name, value)))
        self.writer.flush()

    def add(self, event: Event) -> None:
        event.wall_time = time.time()
        self.writer.write_event(event)

    def close(self) -> None:
        with suppress(OSError):  # a full disk was reported by the write that met it
            self.writer.close()
