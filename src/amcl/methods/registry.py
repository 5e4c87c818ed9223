"""The methods by name: built-in ones, those of installed packages, and those of a user's script."""

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from amcl.backbones import Backbone
from amcl.methods.base import Method, MethodSettings

ENTRY_POINTS = "amcl.methods"
"""Entry-point group in which installed packages name modules that register methods."""

M = TypeVar("M", bound=type[Method])

_settings: dict[str, type[MethodSettings]] = {}
_methods: dict[str, type[Method]] = {}


def register_method(settings: type[MethodSettings]) -> Callable[[M], M]:
    """Register a method under the name that its settings declare.

    The method is then available wherever methods are named: in `amcl pretrain --method NAME`, in
    TOML files, recipes, reports and costs.

    Args:
        settings: The dataclass of the method's settings. Its class attribute ``name`` is the name
            of the method.

    Returns:
        A decorator for the class of the method, which is constructed with the settings and a
        backbone.

    Example:
        >>> from dataclasses import dataclass
        >>> from typing import ClassVar
        >>> import torch
        >>> from amcl.methods import Method, MethodSettings
        >>> @dataclass(frozen=True, kw_only=True)
        ... class MeanSettings(MethodSettings):
        ...     name: ClassVar[str] = "mean"
        ...     title: ClassVar[str] = "Mean"
        >>> @register_method(MeanSettings)
        ... class Mean(Method):
        ...     def forward(self, views, watch=False):
        ...         return torch.stack([self.backbone(view).mean() for view in views]).sum()
        >>> "mean" in method_names()
        True
        >>> unregister_method("mean")
    """

    def register(method: M) -> M:
        name = settings.name
        registered = _methods.get(name)
        if registered is not None and registered.__qualname__ != method.__qualname__:
            raise ValueError(
                f"the method {name!r} is registered already, as "
                f"{registered.__module__}.{registered.__qualname__}: choose another name."
            )
        _settings[name], _methods[name] = settings, method
        return method

    return register


def unregister_method(name: str) -> None:
    """Remove a method from the registry, as for a notebook that defines it anew.

    Args:
        name: Name of a registered method.
    """
    settings_class(name)
    del _settings[name], _methods[name]


def method_names() -> tuple[str, ...]:
    """Return the names of all registered methods."""
    _load()
    return tuple(sorted(_methods))


def settings_class(name: str) -> type[MethodSettings]:
    """Return the dataclass of a method's settings.

    Args:
        name: Name of a registered method.

    Returns:
        The class that was registered with the method.

    Example:
        >>> settings_class("moco")().queue
        4096
    """
    _load()
    if name not in _settings:
        near = difflib.get_close_matches(name, _settings, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_settings)}."
        raise ValueError(f"there is no method {name!r}: {hint}")
    return _settings[name]


def method_class(name: str) -> type[Method]:
    """Return the class of a method.

    Args:
        name: Name of a registered method.

    Returns:
        The class that was registered.

    Example:
        >>> method_class("mae").num_views
        1
    """
    settings_class(name)
    return _methods[name]


def make_method(settings: MethodSettings, backbone: Backbone) -> Method:
    """Make the method that the settings belong to.

    Args:
        settings: Settings of a registered method.
        backbone: The network that the method trains.

    Returns:
        The method with its first, random weights.
    """
    return method_class(settings.name)(settings, backbone)


@cache
def _load() -> None:
    """Import every module of this package, and those that installed packages name."""
    package = importlib.import_module(__package__ or "amcl.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    for entry in entry_points(group=ENTRY_POINTS):
        entry.load()
