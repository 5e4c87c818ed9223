"""Methods: one class each, as published or with AMCL, by settings alone."""

from collections.abc import Callable
from typing import Literal

from amcl.backbones import Backbone
from amcl.methods.barlow_twins import BarlowTwins, BarlowTwinsSettings
from amcl.methods.base import Drawn, Method, MethodSettings
from amcl.methods.can import CAN, CANSettings
from amcl.methods.heads import HeadMethod, HeadSettings
from amcl.methods.lgp import LGP, LGPSettings
from amcl.methods.mae import MAE, MAESettings
from amcl.methods.moco import MoCo, MoCoSettings
from amcl.methods.moco_v3 import MoCoV3, MoCoV3Settings
from amcl.methods.simclr import SimCLR, SimCLRSettings
from amcl.methods.simsiam import SimSiam, SimSiamSettings

MethodName = Literal["simclr", "moco", "simsiam", "barlow", "mae", "can", "mocov3", "lgp"]

AnySettings = (
    SimCLRSettings
    | MoCoSettings
    | SimSiamSettings
    | BarlowTwinsSettings
    | MAESettings
    | CANSettings
    | MoCoV3Settings
    | LGPSettings
)

METHODS: dict[str, tuple[type[AnySettings], Callable[..., Method]]] = {
    "simclr": (SimCLRSettings, SimCLR),
    "moco": (MoCoSettings, MoCo),
    "simsiam": (SimSiamSettings, SimSiam),
    "barlow": (BarlowTwinsSettings, BarlowTwins),
    "mae": (MAESettings, MAE),
    "can": (CANSettings, CAN),
    "mocov3": (MoCoV3Settings, MoCoV3),
    "lgp": (LGPSettings, LGP),
}


def make_method(settings: AnySettings, backbone: Backbone) -> Method:
    """The method that the settings are of."""
    make: Callable[[AnySettings, Backbone], Method] = METHODS[settings.name][1]
    return make(settings, backbone)


__all__ = [
    "CAN",
    "LGP",
    "MAE",
    "METHODS",
    "AnySettings",
    "BarlowTwins",
    "BarlowTwinsSettings",
    "CANSettings",
    "Drawn",
    "HeadMethod",
    "HeadSettings",
    "LGPSettings",
    "MAESettings",
    "Method",
    "MethodName",
    "MethodSettings",
    "MoCo",
    "MoCoSettings",
    "MoCoV3",
    "MoCoV3Settings",
    "SimCLR",
    "SimCLRSettings",
    "SimSiam",
    "SimSiamSettings",
    "make_method",
]
