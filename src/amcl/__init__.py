"""Adaptive multi-head contrastive learning: C heads, and a learned temperature for each pair.

>>> import torch, amcl
>>> heads = amcl.ProjectionHeads(512, 512, 128, num_heads=3)
>>> criterion = amcl.AMCLLoss(num_heads=3, dim=128)
>>> h0, h1 = torch.randn(2, 32, 512)
>>> loss = criterion(heads(h0), heads(h1))

Losses, heads and temperatures need torch alone; all else needs the extra "train".

Names are imported when they are first used, so that `amcl --help` does not wait for torch.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from amcl import functional, losses, modules, temperature
    from amcl.checkpoints.load import load
    from amcl.losses import (
        AMCLLoss,
        ContrastiveLoss,
        CrossCorrelationLoss,
        DINOLoss,
        LossStats,
        NegativeCosineLoss,
        SupervisedContrastiveLoss,
        VICRegLoss,
    )
    from amcl.modules import ProjectionHeads

    __version__: str

__all__ = [
    "AMCLLoss",
    "ContrastiveLoss",
    "CrossCorrelationLoss",
    "DINOLoss",
    "LossStats",
    "NegativeCosineLoss",
    "ProjectionHeads",
    "SupervisedContrastiveLoss",
    "VICRegLoss",
    "functional",
    "load",
    "losses",
    "modules",
    "temperature",
]

_MODULES = {name: "amcl.losses" for name in __all__ if "Loss" in name} | {
    "ProjectionHeads": "amcl.modules",
    "load": "amcl.checkpoints.load",
}


def __getattr__(name: str) -> object:
    value: object
    if name == "__version__":
        value = _importlib.import_module("importlib.metadata").version("amcl-torch")
    elif name in _MODULES:
        value = _attribute(_MODULES[name], name)
    elif name in __all__:
        value = _importlib.import_module(f"amcl.{name}")
    else:
        raise AttributeError(f"module 'amcl' has no attribute {name!r}")
    globals()[name] = value
    return value


def _attribute(module: str, name: str) -> object:
    try:
        return getattr(_importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "amcl":
            raise
        extras = _importlib.import_module("amcl.extras")
        message = extras.needed(f"amcl.{name}", error.name, "train")
        raise ModuleNotFoundError(message, name=error.name) from None


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
