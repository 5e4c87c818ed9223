"""Methods on toy backbones."""

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from amcl.methods import (
    make_method,
)
from factories import method_settings

IMAGES, SIZE = 6, 4


class Flat(nn.Module):
    """The least of a backbone."""

    dim = 7

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3 * SIZE * SIZE, self.dim)

    def allow_crops(self):
        """Take views of one size all the same."""

    def forward(self, images):
        return self.layer(images.flatten(1)).relu()


class Patched(nn.Module):
    """The least of a vision transformer."""

    dim = 8

    def __init__(self):
        super().__init__()
        self.network = VisionTransformer(
            SIZE, 1, num_classes=0, embed_dim=self.dim, depth=2, num_heads=2, mlp_ratio=2
        )

    def allow_crops(self):
        """Take views of one size all the same."""

    def forward(self, images):
        return self.network(images)


DECODER = {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
SMALL = {
    "simclr": (Flat, {"projector": (8, 5)}),
    "moco": (Flat, {"projector": (8, 5), "queue": 16}),
    "simsiam": (Flat, {"projector": (8, 5), "predictor": 4}),
    "barlow": (Flat, {"projector": (8, 8, 5)}),
    "supcon": (Flat, {"projector": (8, 5)}),
    "vicreg": (Flat, {"projector": (8, 8, 5)}),
    "dino": (Flat, {"projector": (8, 5), "prototypes": 12, "teacher_tau_warmup": 0}),
    "mae": (Patched, DECODER),
    "can": (Patched, {"projector": (8, 5), **DECODER}),
    "mocov3": (Patched, {"projector": (8, 5), "predictor": 4}),
    "lgp": (Patched, {"projector": (8, 5), "predictor": 4}),
    "byol": (Flat, {"projector": (8, 5), "predictor": 4}),
    "nnclr": (Flat, {"projector": (8, 5), "predictor": 4, "queue": 16}),
}

REFUSED = {
    *((method, "uncertainty") for method in ("simsiam", "byol", "nnclr", "vicreg")),
    *((method, "adaptive-negative") for method in ("simsiam", "byol", "vicreg", "dino")),
    *((method, "isogclr") for method in ("simsiam", "byol", "vicreg", "barlow", "dino")),
    ("dino", "artanh"),
    ("vicreg", "learnable"),
    ("vicreg", "artanh"),
    ("barlow", "one-sided"),
}
"""Methods with temperatures that they do not take."""


def settings_of(name, **options):
    return method_settings(name, **SMALL[name][1] | options)


def make(name, **options):
    backbone, _ = SMALL[name]
    return make_method(settings_of(name, **options), backbone()).double()


def views():
    return torch.randn(2, IMAGES, 3, SIZE, SIZE, dtype=torch.float64)


def labels_of(method, images=IMAGES):
    """What a method that learns from labels takes beside views: two classes."""
    return {"labels": torch.arange(images) % 2} if method.settings.needs_labels else {}


def part_encoders(method):
    """Let the key encoder be unlike the query encoder."""
    with torch.no_grad():
        for p in [*method.backbone.parameters(), *method.heads.parameters()]:
            p.add_(0.3 * torch.randn_like(p))
