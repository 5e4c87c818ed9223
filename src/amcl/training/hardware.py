"""Devices and precision, handed to Lightning Fabric; requests to stop or to save."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from amcl import signals
from amcl.config import HardwareSettings
from amcl.config.sections import check_threads
from amcl.errors import Interrupted, RunError, StoppedWaiting

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_fabric(settings: HardwareSettings) -> Fabric:
    """Return Fabric for these settings. Under torchrun, the processes it started are taken."""
    from lightning_fabric import Fabric

    set_threads(settings.threads)
    accelerator = find_accelerator(settings.accelerator)
    devices = settings.devices
    nodes = settings.nodes
    if "LOCAL_WORLD_SIZE" in os.environ and "WORLD_SIZE" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    if not devices:
        devices = torch.cuda.device_count() if accelerator == "cuda" else 1
    precision = _precision(settings.precision, accelerator)
    if settings.strategy == "fsdp":
        strategy = _fsdp(devices * nodes, precision)
    else:
        strategy = _ddp() if devices * nodes > 1 else "auto"
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy=strategy,
        precision=cast(Any, precision),
    )


def _ddp() -> Any:
    from lightning_fabric.strategies.ddp import DDPStrategy

    # Buffers need no broadcast: queues are equal on all processes, and running statistics of
    # batch norm are read from the first only.
    names = inspect.signature(DistributedDataParallel.__init__).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
    options: dict[str, Any] = {name: False}
    if not dist.is_nccl_available():  # as on Windows
        options["process_group_backend"] = "gloo"
    if sys.platform == "win32":  # where PyTorch may be built without libuv, and says so as an error
        os.environ.setdefault("USE_LIBUV", "0")
    return DDPStrategy(**options)


def _fsdp(processes: int, precision: str) -> Any:
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

    if processes == 1:
        raise RunError(
            "--strategy fsdp divides the model among processes, and there is one: use --devices 2 "
            "or more, or --strategy ddp."
        )
    if precision == "16-mixed":
        raise RunError(
            "--strategy fsdp does not scale losses, as --precision 16 needs: use --precision bf16 "
            "or 32, or --strategy ddp."
        )
    # The method is divided before Fabric gets it, since the optimizer is made of its shares.
    return ModelParallelStrategy(
        parallelize_fn=lambda module, mesh: module,
        data_parallel_size=processes,
        tensor_parallel_size=1,
    )


def fabric_on(device: torch.device, precision: str) -> Fabric:
    """Return Fabric for one device, in this process.

    Example:
        >>> fabric_on(torch.device("cpu"), "32").device
        device(type='cpu')
    """
    from lightning_fabric import Fabric

    is_cuda = device.type == "cuda"
    return Fabric(
        accelerator=device.type,
        devices=[torch.empty(0, device=device).get_device()] if is_cuda else 1,
        precision=cast(Any, _precision(precision, device.type)),
    )


def set_threads(threads: int) -> None:
    """Let torch compute with that many CPU threads; 0 leaves the number to torch."""
    check_threads("--threads", threads)
    if threads:
        torch.set_num_threads(threads)


def find_accelerator(name: str) -> str:
    """Return cpu, cuda or mps: the one of this name, or the best there is for auto."""
    has = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return "cuda" if has["cuda"] else "mps" if has["mps"] else "cpu"
    if not has[name]:
        raise RunError(f"--accelerator {name}: this machine has none. Use auto or cpu.")
    return name


def _precision(name: str, accelerator: str) -> str:
    if accelerator == "cpu":
        if name in ("16", "bf16"):
            raise RunError(
                f"--precision {name} is for GPUs: on a CPU it is no faster, and some die of it. "
                "Use 32 or auto."
            )
        return "32-true"
    if name == "auto":
        bf16 = accelerator == "cuda" and torch.cuda.is_bf16_supported()
        return "bf16-mixed" if bf16 else "32-true"
    return {"32": "32-true", "16": "16-mixed", "bf16": "bf16-mixed"}[name]


class StopRequest:
    """Turns signals into requests that the loop grants between two steps.

    Ctrl-C, SIGTERM, SIGHUP and SIGXCPU ask for a stop, SIGUSR1 for a checkpoint. A second Ctrl-C
    interrupts at once. Outside the main thread, which alone gets signals, it does nothing.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._save = False
        self._requested = 0.0
        self._message: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        self._before = {
            **signals.handle(signals.STOP, self._request),
            **signals.handle(signals.SAVE, self._request_checkpoint),
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signals.restore(self._before)

    @contextmanager
    def at_once(self, message: str) -> Iterator[None]:
        """Let a signal end the run where it is, with this message, while nothing could be lost."""
        if self.signal is not None:
            raise Interrupted(message, self.signal)
        self._message = message
        try:
            yield
        finally:
            self._message = None

    def end_waiting(self, patience: float) -> None:
        """Raise `StoppedWaiting` if a stop was asked for longer ago than `patience` seconds.

        For a run that waits for images: its next step, which would grant it, may never come.
        """
        if self.signal is not None and time.monotonic() - self._requested >= patience:
            raise StoppedWaiting

    def take_save(self) -> bool:
        """Return whether a checkpoint was asked for since the last call."""
        if not self._save:  # a signal that comes here is for the next call
            return False
        self._save = False
        return True

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        self._requested = time.monotonic()
        if self._message is not None:
            raise Interrupted(self._message, number)

    def _request_checkpoint(self, number: int, frame: FrameType | None) -> None:
        self._save = True
