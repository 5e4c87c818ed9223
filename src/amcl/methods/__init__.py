"""Methods: one class each, as published or with AMCL, by settings alone."""

from collections.abc import Callable

from amcl.backbones import Backbone
from amcl.methods.barlow_twins import BarlowTwins, BarlowTwinsSettings
from amcl.methods.base import Method, MethodSettings
from amcl.methods.moco import MoCo, MoCoSettings
from amcl.methods.simclr import SimCLR, SimCLRSettings
from amcl.methods.simsiam import SimSiam, SimSiamSettings

AnySettings = SimCLRSettings | MoCoSettings | SimSiamSettings | BarlowTwinsSettings

METHODS: dict[str, tuple[type[AnySettings], Callable[..., Method]]] = {
    "simclr": (SimCLRSettings, SimCLR),
    "moco": (MoCoSettings, MoCo),
    "simsiam": (SimSiamSettings, SimSiam),
    "barlow": (BarlowTwinsSettings, BarlowTwins),
}


def make_method(settings: AnySettings, backbone: Backbone) -> Method:
    """The method that the settings are of."""
    make: Callable[[AnySettings, Backbone], Method] = METHODS[settings.name][1]
    return make(settings, backbone)


__all__ = [
    "METHODS",
    "AnySettings",
    "BarlowTwins",
    "BarlowTwinsSettings",
    "Method",
    "MethodSettings",
    "MoCo",
    "MoCoSettings",
    "SimCLR",
    "SimCLRSettings",
    "SimSiam",
    "SimSiamSettings",
    "make_method",
]
