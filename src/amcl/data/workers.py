"""Processes that decode batches, and a wait for them that ends."""

import logging
import multiprocessing
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.process import BaseProcess
from types import FrameType, TracebackType
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset

from amcl.data.batch import Array, Batch, Parcel

logger = logging.getLogger("amcl")

SLICE = 1.0  # seconds that are waited at a time
SLOW = 60.0  # seconds without a batch: worth a word
STALLED = 1800.0  # seconds without a batch: something is broken
_SHARED_MEMORY = "/dev/shm"


class Decodes(Protocol):
    """What turns indices into a batch."""

    def __getitem__(self, indices: torch.Tensor) -> Batch: ...


def from_workers(
    decoder: Decodes,
    steps: Iterable[torch.Tensor],
    *,
    workers: int,
    ahead: int,
    on_wait: Callable[[], None] | None = None,
) -> Generator[Batch, None, None]:
    """The batches of `steps`, in their order, each decoded by one of the processes.

    Where the processes cannot be started, decoding is done in this one. Raises `ChildProcessError`
    where one of them dies, or none delivers for half an hour.
    """
    try:
        parcels = _start(decoder, steps, workers, ahead)
    except OSError as error:  # no room for semaphores, or no more processes
        logger.warning(
            "%d processes to decode images could not be started (%s): images are decoded in this "
            "one. In a container, give it shared memory: docker run --shm-size 2g.",
            *(workers, error),
        )
        yield from map(decoder.__getitem__, steps)
        return
    through_pipe = False
    try:
        while (parcel := _next_or_end(parcels, on_wait)) is not None:
            if not parcel.shared and not through_pipe:
                through_pipe = True
                _tell_small(len(parcel.pixels) * parcel.pixels[0].nbytes)
            yield parcel.open()
    finally:
        del parcels  # the last reference: this ends the workers


def _start(
    decoder: Decodes, steps: Iterable[torch.Tensor], workers: int, ahead: int
) -> Iterator[Parcel]:
    # A loader that finds no room for its locks half-way through leaves a traceback: try first.
    locks = [multiprocessing.get_context().Lock() for _ in range(3 * (workers + 1) + 6)]
    del locks
    with warnings.catch_warnings():
        # More workers than cores, and forks of a process with threads: both are meant, and the
        # workers call nothing that waits for a thread of the parent.
        warnings.simplefilter("ignore")
        loader = DataLoader(
            _Packed(decoder),
            batch_size=None,
            # As arrays they go through the pipe: tensors would need shared memory.
            sampler=(indices.numpy() for indices in steps),
            num_workers=workers,
            prefetch_factor=ahead,
            timeout=SLICE,
            collate_fn=_as_it_is,
            worker_init_fn=_set_up_worker,
            # The loader draws a seed for its workers: not from the numbers that training draws.
            generator=torch.Generator(),
        )
        before = signal.getsignal(signal.SIGCHLD)
        parcels = iter(loader)
    _hear_only_while_waiting(before)
    return parcels


def _hear_only_while_waiting(before: Any) -> None:
    """Keep torch's handler of dead workers from raising its error in the middle of a step.

    Without it, half a batch in the pipe would be waited for without end. It is installed once.
    """
    of_torch = signal.getsignal(signal.SIGCHLD)
    if of_torch is before or not callable(of_torch):
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if _Waiting.now:
            of_torch(number, frame)
        elif callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handle)


class _Waiting:
    """Whether this process waits for a batch."""

    now = False

    def __enter__(self) -> None:
        _Waiting.now = True

    def __exit__(self, *_: object) -> None:
        _Waiting.now = False


def _next_or_end(parcels: Iterator[Parcel], on_wait: Callable[[], None] | None) -> Parcel | None:
    try:
        return _next(parcels, on_wait)
    except BaseException:
        # The loader would give each of its processes five seconds, and they may all be stuck.
        for process in _processes(parcels):
            process.terminate()
        raise


def _next(parcels: Iterator[Parcel], on_wait: Callable[[], None] | None) -> Parcel | None:
    """The next parcel, or None after the last."""
    begun, told = time.monotonic(), False
    while True:
        try:
            with _Waiting():
                _check_alive(parcels)
                return next(parcels, None)
        except RuntimeError as error:
            _raise_if_dead(error)
        waited = time.monotonic() - begun
        if on_wait is not None:
            on_wait()
        if waited > SLOW and not told:
            told = True
            logger.warning(
                "no batch of images for %.0f seconds: the disk or network drive may be slow. "
                "Waiting on.",
                waited,
            )
        if waited > STALLED:
            raise ChildProcessError(
                f"no batch of images came from the worker processes for {waited / 60:.0f} minutes: "
                "check that the disk or network drive answers, or use --workers 0 to decode in "
                "the main process, which shows the error itself."
            )


def _processes(parcels: Iterator[Parcel]) -> list[BaseProcess]:
    return list(getattr(parcels, "_workers", ()))


def _check_alive(parcels: Iterator[Parcel]) -> None:
    for process in _processes(parcels):
        if process.exitcode not in (None, 0):
            raise RuntimeError(f"process {process.pid} exited unexpectedly: {process.exitcode}")


def _raise_if_dead(error: RuntimeError) -> None:
    """Nothing where the loader only says that a slice of waiting is over."""
    text = str(error)
    if text.startswith("DataLoader timed out"):
        return
    if "exited unexpectedly" in text or "killed by signal" in text:
        raise ChildProcessError(
            f"a process that decodes images has died ({text.splitlines()[0].rstrip('. ')}): memory "
            "may have run out. Use fewer --workers, a smaller --canvas or a smaller --batch-size."
        ) from error
    raise error


def _tell_small(size: int) -> None:
    free = ""
    if os.path.isdir(_SHARED_MEMORY):
        free = f": {shutil.disk_usage(_SHARED_MEMORY).free / 2**20:.0f} MiB are free"
    logger.warning(
        "shared memory (%s) has no room for a batch of %.0f MiB%s. Batches come through pipes "
        "instead, which takes a little longer. In a container, more is given by docker run "
        "--shm-size 2g.",
        *(_SHARED_MEMORY, size / 2**20, free),
    )


class _Packed(Dataset[Parcel]):
    """What worker processes hold."""

    def __init__(self, decoder: Decodes) -> None:
        self.decoder = decoder

    def __getitem__(self, indices: Array) -> Parcel:
        return Parcel.of(self.decoder[torch.from_numpy(indices)])


def _as_it_is(batch: Any) -> Any:
    return batch


def _set_up_worker(_: int) -> None:
    # Ctrl-C, and a signal to the whole group, are the parent's: it ends the workers.
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    sys.excepthook = _report


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    # A parent that is interrupted while it fetches a batch hangs up: no fault of the worker.
    if not issubclass(kind, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, trace)
