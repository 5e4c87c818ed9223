"""Errors of one process end all processes of a run, with its message."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch.distributed as dist

from amcl.distributed import rank, world_size
from amcl.errors import Interrupted, RunError

_ERROR = "amcl/error"  # keys in the store that the processes share
_SEEN = "amcl/seen"
_ALIVE = "amcl/alive/"
_LEFT = "amcl/left/"
_MACHINE = "amcl/machine/"
_PATIENCE = 10.0  # seconds that a process waits for others to read its message, or to end
_PAUSE = 0.5  # seconds between looks
_SILENCE = 60.0  # seconds without a sign of life after which a process counts as lost


@contextmanager
def shared_errors() -> Iterator[None]:
    """Let an error on one process end the others with its message.

    Without this, the other processes wait for it in their next collective until that times out, or
    end with an error of the connection that does not name the cause. A machine that is switched
    off, or whose network fails, ends the others after a minute. With one process it does nothing. A
    stop by a signal is agreed upon elsewhere, and passes.
    """
    if world_size() == 1:
        yield
        return
    store: Any = dist.distributed_c10d._get_default_store()
    # A wait of the main thread on its own connection would look like silence. Older versions of
    # PyTorch have that one only, and with them silence is not judged.
    has_own_connection = hasattr(store, "clone")
    if has_own_connection:
        store = store.clone()
    number = rank()
    watcher = _Watcher(store, number, world_size(), judge_silence=has_own_connection)
    watcher.start()
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        if watcher.message is not None:
            raise RunError(watcher.message) from error
        if isinstance(error, RuntimeError) and (lost := _lost(store)):
            raise RunError(f"{_ended(lost)} (this is process {number})") from error
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        watcher.done.set()  # it need not look for its own error
        with suppress(RuntimeError):  # the process that held the store is gone: nobody reads it
            store.set(_ERROR, f"process {number}: {reason}")
            _wait_for_readers(store)
        raise
    finally:
        with suppress(RuntimeError):  # the process that held the store is gone
            store.set(f"{_LEFT}{number}", "")
        watcher.done.set()


class _Watcher(threading.Thread):
    """Gives signs of life, and looks for messages of other processes and for the life of the next.

    A process that has failed or is lost ends the waiting of most backends. Where it does not, as
    after a machine has lost its power, this process is ended too, after some seconds.
    """

    def __init__(self, store: Any, number: int, size: int, *, judge_silence: bool) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.number = number
        self.next = (number + 1) % size
        self.judge_silence = judge_silence
        self.message: str | None = None
        self.done = threading.Event()
        # Time is counted in looks of this process: one that was suspended has missed nothing.
        self._looks = 0
        self._signs = 0
        self._looks_without_sign = 0

    def start(self) -> None:
        """Start, and watch the store, too: to look into one that no longer answers never ends."""
        super().start()
        if self.judge_silence:
            threading.Thread(target=self._watch_store, daemon=True).start()

    def run(self) -> None:
        try:
            self.store.set(f"{_MACHINE}{self.number}", socket.gethostname())
            while not self.done.wait(_PAUSE):
                message = self._look()
                self._looks += 1
                if message is not None:
                    self.store.add(_SEEN, 1)
                    self._end(message)
                    return
        except RuntimeError:
            if not self.done.is_set():
                self._end(_ended(_first()))

    def _look(self) -> str | None:
        """Give a sign of life, and return the message of another process, or on the next one."""
        self.store.add(f"{_ALIVE}{self.number}", 1)
        if self.store.check([_ERROR]):
            message: str = self.store.get(_ERROR).decode()
            return message
        signs = self.store.add(f"{_ALIVE}{self.next}", 0)
        self._looks_without_sign += 1
        if signs != self._signs or not signs or self.store.check([f"{_LEFT}{self.next}"]):
            self._looks_without_sign = 0
        self._signs = signs
        if not self.judge_silence or self._looks_without_sign * _PAUSE < _SILENCE:
            return None
        message = _silent(f"{_name(self.store, self.next)} has given no sign of life")
        self.store.set(_ERROR, message)
        return message

    def _watch_store(self) -> None:
        looks = -1
        waited = 0.0
        while not self.done.wait(_PAUSE) and self.message is None:
            waited = waited + _PAUSE if looks == self._looks else 0.0
            looks = self._looks
            if waited > 1.25 * _SILENCE:
                self._end(_silent(f"{_first()} has not answered"))

    def _end(self, message: str) -> None:
        """Have this process end with a message: by its own error, or else at once."""
        self.message = f"{message} (this is process {self.number})"
        if not self.done.wait(2 * _PATIENCE):
            print(f"amcl: {self.message}", file=sys.stderr, flush=True)
            os._exit(1)


def _name(store: Any, number: int) -> str:
    """Return the name of a process, with its machine."""
    key = f"{_MACHINE}{number}"
    machine = f" ({store.get(key).decode()})" if store.check([key]) else ""
    return f"process {number} of {world_size()}{machine}"


def _first() -> str:
    """Return the name of what holds the store."""
    process = f"process 0 of {world_size()}"
    if dist.is_torchelastic_launched():
        return f"torchrun on the machine of {process}"
    return process


def _ended(process: str) -> str:
    return (
        f"{process} has ended without a message, as a process does that is killed or runs out of "
        "memory. Resume the run."
    )


def _silent(what: str) -> str:
    return (
        f"{what} for {_SILENCE:.0f} seconds: it was stopped, its machine is down, or the network "
        "between the machines is. Resume the run."
    )


def _lost(store: Any) -> str:
    """Return the first process that no longer gives signs of life; "" if all do."""

    def signs() -> list[int]:
        return [store.add(f"{_ALIVE}{number}", 0) for number in range(world_size())]

    try:
        before = signs()
        time.sleep(4 * _PAUSE)
        pairs = list(zip(before, signs(), strict=True))
        return next((_name(store, k) for k, (then, now) in enumerate(pairs) if then == now), "")
    except RuntimeError:  # the store went with the process that held it
        return _first()


def _wait_for_readers(store: Any) -> None:
    """Keep the store, which may live in this process, until the others have read it."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and store.add(_SEEN, 0) < world_size() - 1:
        time.sleep(_PAUSE / 5)
