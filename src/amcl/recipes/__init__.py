"""Recipes: configurations by name, with the figures of the original papers and repositories.

A name is `SET-METHOD` for a method as published, and `SET-METHOD-amcl` for the same with three
heads and adaptive temperatures: `cifar10-simclr`, `stl10-moco-amcl`. MAE has no heads, and so no
such form. `imagenet-METHOD-large` are those of ViT-L.
"""

import difflib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from amcl.methods import HeadSettings, LGPSettings
from amcl.methods.contrastive import ContrastiveSettings
from amcl.recipes import resnets, vits
from amcl.training.config import Config

AMCL_HEADS = 3


def with_amcl(config: Config) -> Config:
    """The same configuration with adaptive temperatures, and three heads if it has but one."""
    method = _headed(config)
    heads = method.heads if method.heads > 1 else AMCL_HEADS
    return replace(config, method=replace(method, heads=heads, temperature="adaptive"))


def as_published(config: Config) -> Config:
    """The same configuration with one head, a constant temperature, and softmax if it has a form.

    >>> as_published(recipe("cifar10-moco-amcl")) == recipe("cifar10-moco")
    True
    """
    plain: dict[str, Any] = {"heads": 1, "temperature": "constant"}
    method = _headed(config)
    if isinstance(method, ContrastiveSettings):
        plain |= {"form": "softmax", "top_k": None}
    return replace(config, method=replace(method, **plain))


def _headed(config: Config) -> Any:
    if not isinstance(config.method, HeadSettings):
        raise ValueError(f"{config.method.name} has no heads, and so no AMCL form.")
    return config.method


Make = Callable[[str], Config]

_SETS: dict[str, tuple[Make, Make]] = {
    "builtin": (resnets.builtin, vits.builtin),
    "folder": (resnets.folder, vits.folder),
    "cifar10": (resnets.cifar, vits.cifar),
    "cifar100": (partial(resnets.cifar, data="cifar100"), partial(vits.cifar, data="cifar100")),
    "stl10": (resnets.stl10, vits.stl10),
    "tinyimagenet": (resnets.tinyimagenet, vits.tinyimagenet),
    "imagenet": (resnets.imagenet, vits.imagenet),
}


def published(data: str, method: str) -> Config:
    """A method as published on a named set, "builtin" or "folder"."""
    of_resnets, of_vits = _SETS[data]
    return of_vits(method) if method in vits.METHODS else of_resnets(method)


def _by_name() -> dict[str, Callable[[], Config]]:
    """Makers of all recipes of methods as published."""
    found = {
        f"{data}-{method}": partial(published, data, method)
        for data in _SETS
        for method in (*resnets.METHODS, *vits.METHODS)
    }
    large = {f"imagenet-{m}-large": partial(vits.imagenet_large, m) for m in vits.METHODS}
    return {**found, **large}


@cache
def names() -> tuple[str, ...]:
    """The names of all recipes."""
    found = []
    for name, make in _by_name().items():
        found.append(name)
        if isinstance(make().method, HeadSettings):
            found.append(f"{name}-amcl")
    return tuple(found)


def recipe(name: str) -> Config:
    """The recipe of this name; `tiny-imagenet` is `tinyimagenet`.

    >>> recipe("cifar10-simclr-amcl").method.heads
    3
    """
    name = name.replace("tiny-imagenet", "tinyimagenet")
    plain = name.removesuffix("-amcl")
    if plain not in _by_name():
        near = difflib.get_close_matches(name, names(), n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "`amcl recipes` lists them."
        raise ValueError(f"there is no recipe {name!r}: {hint}")
    config = _by_name()[plain]()
    return config if plain == name else with_amcl(config)


def default(data: str, method: str) -> Config:
    """Where a run starts when no recipe is named: that of the set, or that of folders."""
    config = published(data if data in _SETS else "folder", method)
    return replace(config, data=replace(config.data, data=data))


def summary(name: str) -> str:
    """One line on a recipe: network, optimizer, batches and epochs."""
    config = recipe(name)
    width = f" ×{config.backbone.width:.2g}" if config.backbone.width != 1 else ""
    epochs = f"{config.run.epochs} epochs"
    if isinstance(config.method, LGPSettings):
        epochs = f"{config.method.mae_epochs} of MAE and {epochs}"
    return (
        f"{config.backbone.backbone}{width}, {config.optimizer.optimizer}, batches of "
        f"{config.run.batch_size}; {epochs}"
    )
