"""Methods: one class each, as published or with AMCL, by settings alone.

A method is one file of this package, or of another one that registers it with `register_method`.
"""

from amcl.methods.barlow_twins import BarlowTwins, BarlowTwinsSettings
from amcl.methods.base import Drawn, Method, MethodSettings, pair
from amcl.methods.byol import BYOL, BYOLSettings
from amcl.methods.can import CAN, CANSettings
from amcl.methods.dino import DINO, DINOSettings
from amcl.methods.heads import HeadMethod, HeadSettings
from amcl.methods.lgp import LGP, LGPSettings
from amcl.methods.mae import MAE, MAESettings
from amcl.methods.moco import MoCo, MoCoSettings
from amcl.methods.moco_v3 import MoCoV3, MoCoV3Settings
from amcl.methods.nnclr import NNCLR, NNCLRSettings
from amcl.methods.registry import METHODS, make_method, register_method
from amcl.methods.simclr import SimCLR, SimCLRSettings
from amcl.methods.simsiam import SimSiam, SimSiamSettings
from amcl.methods.supcon import SupCon, SupConSettings
from amcl.methods.vicreg import VICReg, VICRegSettings

__all__ = [
    "BYOL",
    "CAN",
    "DINO",
    "LGP",
    "MAE",
    "METHODS",
    "NNCLR",
    "BYOLSettings",
    "BarlowTwins",
    "BarlowTwinsSettings",
    "CANSettings",
    "DINOSettings",
    "Drawn",
    "HeadMethod",
    "HeadSettings",
    "LGPSettings",
    "MAESettings",
    "Method",
    "MethodSettings",
    "MoCo",
    "MoCoSettings",
    "MoCoV3",
    "MoCoV3Settings",
    "NNCLRSettings",
    "SimCLR",
    "SimCLRSettings",
    "SimSiam",
    "SimSiamSettings",
    "SupCon",
    "SupConSettings",
    "VICReg",
    "VICRegSettings",
    "make_method",
    "pair",
    "register_method",
]
