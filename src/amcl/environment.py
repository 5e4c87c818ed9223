"""The environment that results may depend on: versions, machine, command."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from amcl.redaction import redact_command

_PACKAGES = (
    *("amcl-torch", "torch", "torchvision", "timm", "lightning-fabric", "numpy", "pillow"),
    "scikit-learn",
)


def environment() -> dict[str, Any]:
    """Return versions of packages, Python, platform, threads, GPU, and the command.

    Passwords and keys in the command are hidden.
    """
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "command": redact_command(sys.argv),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
