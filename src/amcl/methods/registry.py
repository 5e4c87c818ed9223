"""Methods by name: built-in ones, those of installed packages, and those of a user's script."""

from collections.abc import Callable
from typing import TypeVar

from amcl.backbones import Backbone
from amcl.methods.base import Method, MethodSettings
from amcl.registry import Registry

M = TypeVar("M", bound=type[Method])

METHODS = Registry[type[Method]]("method", "amcl.methods", "amcl.methods")
"""All methods, with those of installed packages. `METHODS["moco"].settings_class` is the dataclass
of a method's settings."""


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
        >>> "mean" in METHODS
        True
        >>> METHODS.unregister("mean")
    """

    def register(method: M) -> M:
        METHODS.register(settings.name, method)
        method.settings_class = settings
        return method

    return register


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
    return METHODS[settings.name](settings, backbone)
