"""Errors of one process end all processes of a run, with its message."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from amcl.distributed import rank, world_size
from amcl.errors import Interrupted, RunError

_ERROR = "amcl/error"  # keys in the store that the processes share
_SEEN = "amcl/seen"
_ALIVE = "amcl/alive/"
_PATIENCE = 10.0  # seconds that a process waits for others to read its message, or to end
_PAUSE = 0.5  # seconds between looks


@contextmanager
def shared_errors() -> Iterator[None]:
    """Let an error on one process end the others with its message.

    Without this, the other processes wait for it in their next collective until that times out, or
    end with an error of the connection that does not name the cause. With one process it does
    nothing. A stop by a signal is agreed upon elsewhere, and passes.
    """
    if world_size() == 1:
        yield
        return
    store = dist.distributed_c10d._get_default_store()
    number = rank()
    watcher = _Watcher(store, number)
    watcher.start()
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        if watcher.message is not None:
            raise RunError(watcher.message) from error
        if isinstance(error, RuntimeError) and (lost := _lost(store)):
            raise RunError(
                f"{lost} of {world_size()} has ended without a message, as a process does that is "
                f"killed or runs out of memory (this is process {number}). Resume the run."
            ) from error
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        watcher.done.set()  # it need not look for its own error
        store.set(_ERROR, f"process {number}: {reason}")
        _wait_for_readers(store)
        raise
    finally:
        watcher.done.set()


class _Watcher(threading.Thread):
    """Looks for the message of another process while this one may be waiting for it.

    A process that has failed ends, which ends the waiting of most backends. Where it does not, this
    one is ended too, after some seconds.
    """

    def __init__(self, store: Any, number: int) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.number = number
        self.message: str | None = None
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(_PAUSE):
            try:
                self.store.add(f"{_ALIVE}{self.number}", 1)
                if not self.store.check([_ERROR]):
                    continue
                message = self.store.get(_ERROR).decode()
                self.message = f"{message} (this is process {self.number})"
                self.store.add(_SEEN, 1)
            except RuntimeError:  # the process that held the store is gone
                return
            if not self.done.wait(2 * _PATIENCE):
                print(f"amcl: {self.message}", file=sys.stderr, flush=True)
                os._exit(1)
            return


def _lost(store: Any) -> str:
    """Return the first process that no longer gives signs of life; "" if all do."""

    def signs() -> list[int]:
        return [store.add(f"{_ALIVE}{number}", 0) for number in range(world_size())]

    try:
        before = signs()
        time.sleep(4 * _PAUSE)
        pairs = list(zip(before, signs(), strict=True))
    except RuntimeError:  # the store went with the process that held it
        return "process 0"
    return next((f"process {k}" for k, (then, now) in enumerate(pairs) if then == now), "")


def _wait_for_readers(store: Any) -> None:
    """Keep the store, which may live in this process, until the others have read it."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and store.add(_SEEN, 0) < world_size() - 1:
        time.sleep(_PAUSE / 5)
