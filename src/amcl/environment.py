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
    return {
        "command": redact_command(sys.argv),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def amcl_version() -> str | None:
    """Return the version of this package; None if it is imported without being installed."""
    return _version("amcl-torch")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
