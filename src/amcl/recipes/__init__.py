"""Recipes: configurations by name, with the figures of the original papers and repositories.

A name is `SET-METHOD` for a method as published, and `SET-METHOD-amcl` for the same with three
heads and adaptive temperatures: `cifar10-simclr`, `stl10-moco-amcl`. MAE has no heads, and so no
such form. `imagenet-METHOD-large` are those of ViT-L.
"""

import difflib
import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from amcl.config import Config
from amcl.recipes.continuation import continued
from amcl.recipes.registry import published, recipes_by_name, register_recipes, register_variant
from amcl.recipes.sets import SETS

__all__ = [
    "as_published",
    "continued",
    "default",
    "names",
    "published",
    "recipe",
    "register_recipes",
    "register_variant",
    "summary",
    "with_amcl",
]

for _module in pkgutil.iter_modules(__path__):  # each registers the recipes of a method
    importlib.import_module(f"{__name__}.{_module.name}")


def with_amcl(config: Config) -> Config:
    """Return the configuration with adaptive temperatures, and three heads if it has one.

    Args:
        config: A configuration of a method with heads.

    Returns:
        The AMCL form of the same run.

    Example:
        >>> with_amcl(recipe("cifar10-moco")) == recipe("cifar10-moco-amcl")
        True
    """
    return replace(config, method=config.method.amcl())


def as_published(config: Config) -> Config:
    """Return the configuration with one head, a constant temperature and, if it has one, softmax.

    Args:
        config: A configuration of a method with heads.

    Returns:
        The method as published.

    Example:
        >>> as_published(recipe("cifar10-moco-amcl")) == recipe("cifar10-moco")
        True
    """
    if not config.method.has_heads:
        config.method.amcl()  # raises an error that says so
    return replace(config, method=config.method.published())


@cache
def names() -> tuple[str, ...]:
    """Return the names of all recipes.

    Example:
        >>> "cifar10-moco-amcl" in names(), "cifar10-mae-amcl" in names()
        (True, False)
    """
    recipe_names = []
    for name, make in recipes_by_name().items():
        recipe_names.append(name)
        if make().method.has_heads:
            recipe_names.append(f"{name}-amcl")
    return tuple(recipe_names)


def recipe(name: str) -> Config:
    """Return a recipe.

    Args:
        name: Name of the recipe; `tiny-imagenet` is accepted for `tinyimagenet`.

    Returns:
        The configuration.

    Raises:
        ValueError: There is no such recipe; the message has the nearest names.

    Example:
        >>> recipe("cifar10-simclr-amcl").method.heads
        3
    """
    name = name.replace("tiny-imagenet", "tinyimagenet")
    plain = name.removesuffix("-amcl")
    if plain not in recipes_by_name():
        near = difflib.get_close_matches(name, names(), n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "`amcl recipes` lists them."
        raise ValueError(f"there is no recipe {name!r}: {hint}")
    config = recipes_by_name()[plain]()
    return config if plain == name else with_amcl(config)


def default(data: str, method: str) -> Config:
    """Return the recipe of a run that names none: that of the data set, or that of folders.

    Args:
        data: Name of a data set, or a folder of images.
        method: Name of a registered method.

    Returns:
        The method as published, on these images.

    Example:
        >>> default("cifar10", "moco") == recipe("cifar10-moco")
        True
    """
    config = published(data if data in SETS else "folder", method)
    return replace(config, data=replace(config.data, source=data))


def summary(name: str) -> str:
    """Return a line on a recipe: network, optimizer, batches and epochs.

    Args:
        name: Name of the recipe.

    Example:
        >>> summary("cifar10-simclr")
        'resnet18, sgd, batches of 512; 800 epochs'
    """
    config = recipe(name)
    width = f" ×{config.backbone.width:.2g}" if config.backbone.width != 1 else ""
    epochs = f"{config.run.epochs} epochs"
    first = config.method.first_stage(config)
    if first is not None:
        epochs = f"{first.run.epochs} of {first.method.label} and {epochs}"
    return (
        f"{config.backbone.name}{width}, {config.optimizer.name}, batches of "
        f"{config.run.batch_size}; {epochs}"
    )
