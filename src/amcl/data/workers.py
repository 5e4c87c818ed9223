"""Processes that decode batches, and waiting for them without hanging."""

import logging
import multiprocessing
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType, TracebackType
from typing import Any, Protocol, Self, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from amcl.data.batch import Array
from amcl.printable import printable

logger = logging.getLogger("amcl")

SLICE = 1.0  # seconds of waiting at a time
SLOW = 60.0  # seconds without a batch after which there is a warning
STALLED = 1800.0  # seconds without a batch after which there is an error
NONE = -1  # index of no image
_SHARED_MEMORY = "/dev/shm"


T = TypeVar("T", covariant=True)


class Packed(Protocol[T]):
    """A batch in the form in which processes send it."""

    @property
    def is_shared(self) -> bool:
        """Whether its pixels are in memory that processes share."""
        ...

    @property
    def nbytes(self) -> int:
        """Size of its pixels in bytes."""
        ...

    def unpack(self) -> T:
        """Return the batch."""
        ...


class Packable(Protocol):
    """A batch that can be sent to another process."""

    def pack(self) -> Packed[Self]:
        """Make it ready to be sent."""
        ...


B = TypeVar("B", bound=Packable)
B_co = TypeVar("B_co", bound=Packable, covariant=True)


class Decoder(Protocol[B_co]):
    """Decodes the images of a step; worker processes hold a copy."""

    current: Any
    """Index of the image that each worker decodes, in memory that the processes share."""

    def __call__(self, step: torch.Tensor) -> B_co: ...

    def path(self, index: int) -> str:
        """Return the file of an image."""
        ...


def decode_in_workers(
    decoder: Decoder[B],
    steps: Iterable[torch.Tensor],
    *,
    workers: int,
    ahead: int,
    on_wait: Callable[[], None] | None = None,
) -> Generator[B, None, None]:
    """Yield the batches of `steps`, in their order, each decoded by one of several processes.

    If the processes cannot be started, this one decodes.

    Args:
        decoder: Function that decodes the images with some indices.
        steps: Indices of the images of each step.
        workers: Number of processes.
        ahead: Number of batches that each process decodes before they are needed.
        on_wait: Called about every second of waiting for a batch.

    Raises:
        ChildProcessError: A process died, or no batch came for half an hour.
    """
    try:
        batches = _start(decoder, steps, workers, ahead)
    except OSError as error:  # no room for semaphores, or no more processes
        logger.warning(
            "%d processes to decode images could not be started (%s): images are decoded in this "
            "one. In a container, give it shared memory: docker run --shm-size 2g.",
            *(workers, error),
        )
        yield from map(decoder, steps)
        return
    through_pipe = False
    try:
        while (packed := _next_or_terminate(batches, decoder, on_wait)) is not None:
            if not packed.is_shared and not through_pipe:
                through_pipe = True
                _warn_of_small_shared_memory(packed.nbytes)
            yield packed.unpack()
    finally:
        del batches  # the last reference: this ends the workers


def _start(
    decoder: Decoder[B], steps: Iterable[torch.Tensor], workers: int, ahead: int
) -> Iterator[Packed[B]]:
    # A loader that runs out of room for its locks halfway leaves a traceback: try first.
    locks = [multiprocessing.get_context().Lock() for _ in range(3 * (workers + 1) + 6)]
    del locks
    decoder.current = multiprocessing.get_context().RawArray("q", [NONE] * workers)
    with warnings.catch_warnings():
        # More workers than cores, and forks of a process with threads: both are intended, and the
        # workers call nothing that waits for a thread of the parent.
        warnings.simplefilter("ignore")
        loader = DataLoader(
            _PackedBatches(decoder),
            batch_size=None,
            # As arrays they go through the pipe: tensors would need shared memory.
            sampler=(indices.numpy() for indices in steps),
            num_workers=workers,
            prefetch_factor=ahead,
            timeout=SLICE,
            worker_init_fn=_set_up_worker,
            # The loader draws a seed for its workers: not from the numbers that training draws.
            generator=torch.Generator(),
        )
        if not hasattr(signal, "SIGCHLD"):  # on Windows, torch looks for dead workers as it waits
            return iter(loader)
        before = signal.getsignal(signal.SIGCHLD)
        batches = iter(loader)
    _handle_dead_workers_only_while_waiting(before)
    return batches


def _handle_dead_workers_only_while_waiting(before: Any) -> None:
    """Keep torch's handler of dead workers from raising its error in the middle of a step.

    Without that handler, half a batch in the pipe would be waited for forever.
    """
    torch_handler = signal.getsignal(signal.SIGCHLD)
    if torch_handler is before or not callable(torch_handler):
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if _Waiting.now:
            torch_handler(number, frame)
        elif callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handle)


class _Waiting:
    """A context in which this process waits for a batch."""

    now = False

    def __enter__(self) -> None:
        _Waiting.now = True

    def __exit__(self, *_: object) -> None:
        _Waiting.now = False


def _next_or_terminate(
    batches: Iterator[Packed[B]], decoder: Decoder[B], on_wait: Callable[[], None] | None
) -> Packed[B] | None:
    try:
        return _next(batches, decoder, on_wait)
    except BaseException:
        # The loader would give each of its processes five seconds, and they may all be stuck.
        for process in _processes(batches):
            process.terminate()
        raise


def _next(
    batches: Iterator[Packed[B]], decoder: Decoder[B], on_wait: Callable[[], None] | None
) -> Packed[B] | None:
    """Return the next batch, or None after the last."""
    start = time.monotonic()
    warned = False
    while True:
        try:
            with _Waiting():
                _check_alive(batches)
                return next(batches, None)
        except (ConnectionError, EOFError, FileNotFoundError):
            # A worker died before it handed over the memory of a batch: now it is dead for sure.
            if not wait([process.sentinel for process in _processes(batches)], timeout=5.0):
                raise
            continue
        except RuntimeError as error:
            dead = [number for number, p in enumerate(_processes(batches)) if p.exitcode]
            _raise_unless_timeout(error, _files(decoder, dead))
        waited = time.monotonic() - start
        if on_wait is not None:
            on_wait()
        if waited > SLOW and not warned:
            warned = True
            logger.warning(
                "no batch of images for %.0f seconds: the disk or network drive may be slow. "
                "Still waiting.",
                waited,
            )
        if waited > STALLED:
            raise ChildProcessError(
                f"no batch of images came from the worker processes for {waited / 60:.0f} minutes"
                f"{_files(decoder, range(len(_processes(batches))))}: check that the disk or "
                "network drive answers, or use --workers 0 to decode in the main process, which "
                "shows the error itself."
            )


def _processes(batches: Iterator[Packed[Any]]) -> list[BaseProcess]:
    return list(getattr(batches, "_workers", ()))


def _check_alive(batches: Iterator[Packed[Any]]) -> None:
    for process in _processes(batches):
        if process.exitcode not in (None, 0):
            raise RuntimeError(f"process {process.pid} exited unexpectedly: {process.exitcode}")


def _files(decoder: Decoder[Any], workers: Iterable[int]) -> str:
    """Return words on the files that some workers were decoding; "" if there are none."""
    indices = [decoder.current[number] for number in workers]
    files = [printable(decoder.path(index)) for index in indices if index != NONE]
    return f" while {', '.join(files)} was decoded" if files else ""


def _raise_unless_timeout(error: RuntimeError, files: str) -> None:
    """Raise the error of a loader, unless it only says that a slice of waiting is over."""
    text = str(error)
    if text.startswith("DataLoader timed out"):
        return
    if "exited unexpectedly" in text or "killed by signal" in text:
        raise ChildProcessError(
            f"a process that decodes images has died{files} "
            f"({text.splitlines()[0].rstrip('. ')}): memory may have run out. Use fewer --workers, "
            "a smaller --canvas or a smaller --batch-size. If it is always the same file, remove "
            "the file."
        ) from error
    raise error


def _warn_of_small_shared_memory(size: int) -> None:
    free = ""
    if os.path.isdir(_SHARED_MEMORY):
        free = f": {shutil.disk_usage(_SHARED_MEMORY).free / 2**20:.0f} MiB are free"
    logger.warning(
        "shared memory (%s) has no room for a batch of %.0f MiB%s. Batches come through pipes "
        "instead, which takes a little longer. In a container, use docker run --shm-size 2g.",
        *(_SHARED_MEMORY, size / 2**20, free),
    )


class _PackedBatches(Dataset[Packed[B]]):
    """The data set of the worker processes: a step of indices in, a packed batch out."""

    def __init__(self, decoder: Decoder[B]) -> None:
        self.decoder = decoder

    def __getitem__(self, step: Array) -> Packed[B]:
        return self.decoder(torch.from_numpy(step)).pack()


def _set_up_worker(_: int) -> None:
    # Ctrl-C, and a signal to the whole group, are handled by the parent: it ends the workers.
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    sys.excepthook = _print_error


def _print_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    # A parent that is interrupted while it fetches a batch hangs up: no fault of the worker.
    if not issubclass(kind, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, trace)
