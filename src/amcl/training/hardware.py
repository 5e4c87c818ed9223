"""What a run runs on: the choice of devices and precision, handed to Lightning Fabric."""

from __future__ import annotations

import inspect
import os
import signal
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.parallel import DistributedDataParallel

from amcl.training.config import HardwareSettings
from amcl.training.errors import RunError

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_fabric(settings: HardwareSettings) -> Fabric:
    """Fabric for these settings. Under torchrun, the processes it started are taken."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    if settings.threads:
        torch.set_num_threads(settings.threads)
    accelerator = find_accelerator(settings.accelerator)
    devices, nodes = settings.devices, settings.nodes
    if "LOCAL_WORLD_SIZE" in os.environ and "WORLD_SIZE" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    if not devices:
        devices = torch.cuda.device_count() if accelerator == "cuda" else 1
    several = devices * nodes > 1
    # Buffers need no broadcast: queues are equal on all processes, and running statistics of
    # batch norm are read from the first only.
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {name: False}
    strategy: Any = DDPStrategy(**options) if several else "auto"
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy=strategy,
        precision=cast(Any, _precision(settings.precision, accelerator)),
    )


def find_accelerator(asked: str) -> str:
    """cpu, cuda or mps: what was asked for, or the best there is for auto."""
    has = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if asked == "auto":
        return "cuda" if has["cuda"] else "mps" if has["mps"] else "cpu"
    if not has[asked]:
        raise RunError(f"--accelerator {asked}: this machine has none. Use auto or cpu.")
    return asked


def _precision(asked: str, accelerator: str) -> str:
    if accelerator == "cpu":
        if asked in ("16", "bf16"):
            raise RunError(
                f"--precision {asked} is for GPUs: on a CPU it is no faster, and some die of it. "
                "Use 32 or auto."
            )
        return "32-true"
    if asked == "auto":
        bf16 = accelerator == "cuda" and torch.cuda.is_bf16_supported()
        return "bf16-mixed" if bf16 else "32-true"
    return {"32": "32-true", "16": "16-mixed", "bf16": "bf16-mixed"}[asked]


class StopRequest:
    """Turns Ctrl-C and SIGTERM into a wish that the loop grants between two steps.

    A second Ctrl-C interrupts at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
