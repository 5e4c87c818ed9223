"""Methods by name: built-in ones, those of installed packages, and those of a user's script."""

from collections.abc import Callable
from typing import TypeVar

from amcl.backbones import Backbone
from amcl.methods.base import Method, MethodSettings
from amcl.registry import Registry

ENTRY_POINTS = "amcl.methods"
"""Entry-point group in which installed packages name modules that register methods."""

M = TypeVar("M", bound=type[Method])

_methods = Registry[type[Method]]("method", "amcl.methods", ENTRY_POINTS)
_settings: dict[str, type[MethodSettings]] = {}


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
        _methods.register(settings.name, method)
        _settings[settings.name] = settings
        return method

    return register


def unregister_method(name: str) -> None:
    """Remove a method from the registry, as for a notebook that defines it anew.

    Args:
        name: Name of a registered method.

    Example:
        >>> from dataclasses import dataclass
        >>> from typing import ClassVar
        >>> @dataclass(frozen=True, kw_only=True)
        ... class TrialSettings(MethodSettings):
        ...     name: ClassVar[str] = "trial"
        >>> @register_method(TrialSettings)
        ... class Trial(Method): ...
        >>> unregister_method("trial")
        >>> "trial" in method_names()
        False
    """
    _methods.unregister(name)


def method_names() -> tuple[str, ...]:
    """Return the names of all registered methods.

    Returns:
        Names in alphabetical order, with those of installed packages.

    Example:
        >>> "simclr" in method_names()
        True
    """
    return _methods.names()


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
    method_class(name)
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
    return _methods[name]


def make_method(settings: MethodSettings, backbone: Backbone) -> Method:
    """Make the method that the settings belong to.

    Args:
        settings: Settings of a registered method.
        backbone: The network that the method trains.

    Returns:
        The method with its first, random weights.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> from amcl.methods import SimCLRSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> type(make_method(SimCLRSettings(projector=(16, 8)), backbone)).__name__
        'SimCLR'
    """
    return method_class(settings.name)(settings, backbone)
