"""Registry of recipes: a function for each method makes those of all data sets."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from amcl.config import Config
from amcl.methods import METHODS
from amcl.recipes import sets

Make = Callable[[str], Config]
F = TypeVar("F", bound=Make)

_recipes: dict[str, Make] = {}
_variants: dict[str, Callable[[], Config]] = {}


def register_recipes(method: str) -> Callable[[F], F]:
    """Register a function that makes the recipes of a method as published.

    Args:
        method: Name of the method.

    Returns:
        A decorator for the function, which takes the name of a data set, one of `sets.SETS`.

    Example:
        >>> from amcl.recipes.simclr import simclr
        >>> register_recipes("simclr")(simclr) is simclr
        True
    """

    def register(make: F) -> F:
        _recipes[method] = make
        return make

    return register


def register_variant(data: str, method: str, variant: str) -> Callable[[F], F]:
    """Register a function that makes a further recipe, ``DATA-METHOD-VARIANT``.

    Args:
        data: Name of the data set, which the function is called with.
        method: Name of the method.
        variant: Ending of the recipe's name, such as "large".

    Returns:
        A decorator for the function.

    Example:
        >>> @register_variant("cifar10", "simclr", "short")
        ... def short(data):
        ...     config = published(data, "simclr")
        ...     return replace(config, run=replace(config.run, epochs=10))
        >>> recipes_by_name()["cifar10-simclr-short"]().run.epochs
        10
        >>> del _variants["cifar10-simclr-short"]
    """

    def register(make: F) -> F:
        _variants[f"{data}-{method}-{variant}"] = partial(make, data)
        return make

    return register


def published(data: str, method: str) -> Config:
    """Return the recipe of a method as published.

    Args:
        data: Name of a data set, one of `sets.SETS`.
        method: Name of a registered method. One without recipes has the network and optimizer of
            the set, and its default settings.

    Returns:
        The configuration.

    Example:
        >>> published("cifar10", "simclr").backbone.name
        'resnet18'
    """
    if method in _recipes:
        return _recipes[method](data)
    settings = METHODS[method].settings_class
    return replace(sets.base(data, settings.network), method=settings())


def recipes_by_name() -> dict[str, Callable[[], Config]]:
    """Return the functions that make all registered recipes, by name."""
    named = {
        f"{data}-{method}": partial(published, data, method)
        for data in sets.SETS
        for method in _recipes
    }
    return {**named, **_variants}
