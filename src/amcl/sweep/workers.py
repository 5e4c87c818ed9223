"""Several processes of this machine that share one piece of work."""

import logging
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch

from amcl import signals
from amcl.config import Config
from amcl.errors import Interrupted, RunError
from amcl.redaction import redact
from amcl.settings import whole_number
from amcl.training.display import log_to_console

Tell = Callable[[str], None]
Work = Callable[[Tell], None]

_SIGNALS = (*signals.STOP, *signals.SAVE)


def for_workers(config: Config) -> Config:
    """Return the configuration for a run in one process; raise an error if it needs more."""
    hardware = config.hardware
    several = hardware.devices > 1 or hardware.nodes > 1 or hardware.strategy == "fsdp"
    if several or "LOCAL_WORLD_SIZE" in os.environ:
        raise ValueError(
            "each run has one process here: leave out --devices, --nodes, --strategy fsdp and "
            "torchrun, and use --jobs to have several runs at once, one a GPU."
        )
    return replace(config, hardware=replace(hardware, devices=1))


def work_together(work: Work, jobs: int, tell: Tell, logs: Path) -> None:
    """Have several processes do `work`, each until it returns.

    Signals to stop (Ctrl-C, SIGTERM, SIGHUP, SIGXCPU) and to save (SIGUSR1) are passed on to all
    processes, which save their runs.

    Args:
        work: Function of a function that prints a line; it must be picklable.
        jobs: Number of processes; one job is done in this process.
        tell: Function that prints a line.
        logs: Folder of a file for each process, with its output.
    """
    whole_number("jobs", jobs)
    if jobs == 1:
        work(tell)
        return
    logs.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    gpus = _gpus()
    threads = max(1, torch.get_num_threads() // jobs)
    connections: list[Connection] = []
    with _Children() as children:
        for i in range(jobs):
            receiver, sender = context.Pipe(duplex=False)
            gpu = gpus[i % len(gpus)] if gpus else None
            log = logs / f"worker-{i}.log"
            children.start(context.Process(target=_child, args=(work, sender, log, threads, gpu)))
            sender.close()
            connections.append(receiver)
            if children.signal is not None:
                break
        errors = _listen(connections, tell)
    if children.signal is not None:
        raise Interrupted("stopped, everything is saved.", children.signal)
    _check(errors, [child.exitcode for child in children.processes], logs)


def _listen(connections: list[Connection], tell: Tell) -> dict[int, tuple[str, int]]:
    """Print the lines of all workers until they have ended, and return their errors by index."""
    indices = {id(connection): i for i, connection in enumerate(connections)}
    errors: dict[int, tuple[str, int]] = {}
    while connections:
        for ready in wait(connections):
            connection = cast("Connection[Any, Any]", ready)  # nothing else is waited for
            try:
                message = connection.recv()
            except (EOFError, OSError):  # it has ended, perhaps in the middle of a word
                connections.remove(connection)
                continue
            if isinstance(message, str):
                tell(message)
            else:
                errors[indices[id(connection)]] = message
    return errors


def _check(errors: dict[int, tuple[str, int]], codes: list[int | None], logs: Path) -> None:
    """Raise the error of the first worker that failed."""
    for i, code in enumerate(codes):
        if i in errors:
            message, exit_code = errors[i]
            raise ValueError(message) if exit_code == 2 else RunError(message)
        if code:
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            raise RunError(f"worker {i} ended {how}; its output is in {logs}/worker-{i}.log.")


def _gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    count = torch.cuda.device_count()
    return visible.split(",")[:count] if visible else [str(i) for i in range(count)]


def _child(work: Work, sender: Connection, log: Path, threads: int, gpu: str | None) -> None:
    """Do the work in a process of its own."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C on the terminal reaches the first process alone, which passes it on
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    with log.open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    torch.set_num_threads(threads)
    log_to_console(logging.INFO)
    try:
        signals.handle(signals.SAVE, signal.SIG_IGN)  # between two runs there is nothing to save
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        work(sender.send)
    except (Interrupted, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)  # the first process is gone
    except Exception as error:
        print(redact(traceback.format_exc()), file=sys.stderr, end="")
        is_usage_error = isinstance(error, ValueError | FileNotFoundError | NotADirectoryError)
        code: Any = 2 if is_usage_error else getattr(error, "exit_code", 1)
        sender.send((str(error) or type(error).__name__, code))
        sys.exit(1)


class _Children:
    """Passes signals on to the children of this process, and waits for them at its end."""

    def __init__(self) -> None:
        self.processes: list[Any] = []
        self.signal: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "_Children":
        self._handlers = signals.handle(_SIGNALS, self._pass)
        return self

    def start(self, child: Any) -> None:
        """Start a child; signals wait until it has started, and in it until its work begins."""
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            child.start()
            self.processes.append(child)
            return
        # Otherwise it is started with the child, and lets signals in.
        resource_tracker.ensure_running()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            child.start()
            self.processes.append(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # nobody listens to them any more
            self._send(signal.SIGTERM)
        for child in self.processes:
            child.join()
        signals.restore(self._handlers)

    def _pass(self, number: int, frame: FrameType | None) -> None:
        if number in signals.STOP:
            self.signal = number
        self._send(number)

    def _send(self, number: int) -> None:
        if sys.platform == "win32" and number != signal.SIGTERM:
            return  # Ctrl-C and Ctrl-Break reach all processes of a console by themselves
        for child in self.processes:
            if child.is_alive():
                os.kill(child.pid, number)
