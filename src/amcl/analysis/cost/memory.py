"""Peak memory of the process or of a GPU."""

import sys
from importlib import import_module
from pathlib import Path

import torch


class PeakMemory:
    """Measures the growth of memory from here on: of the process on a CPU, of tensors on a GPU.

    In a process that took more memory before, such as one that trained already, no growth is seen.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._before: int | None = 0
        if device.type == "cpu":
            self._before = _resident("VmRSS")
        elif device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def growth(self) -> int | None:
        """Return the largest growth in bytes; None where a device does not report it."""
        if self.device.type == "cpu":
            most = _resident("VmHWM")
            return None if most is None or self._before is None else max(most - self._before, 0)
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None


def _resident(field: str) -> int | None:
    """Return the bytes of this process: now (VmRSS) or at most (VmHWM); without /proc, at most.

    /proc comes before getrusage, whose peak on Linux starts with that of the parent process.
    Windows has neither.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    for line in lines:
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    try:
        resource = import_module("resource")
    except ImportError:
        return None
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
