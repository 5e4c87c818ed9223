"""MAE and CAN on a tiny vision transformer."""

import torch

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import (
    make_method,
)
from amcl.seeds import generator
from factories import method_settings

IMAGES, SIZE, PATCH, SIDE = 4, 16, 4, 4
L = SIDE**2
DECODER = {"mask_ratio": 0.7, "decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2}
SMALL = {
    "mae": DECODER,
    "can": DECODER | {"projector": (8, 5), "noise": 0.4},
    "lgp": {"projector": (8, 5), "predictor": 4},
}


def make(name, pool="mean", **options):
    """A method whose parameters are all unlike their start, so that each leaves its mark."""
    backbone = Backbone(BackboneSettings(name="test_vit", patch=PATCH, pool=pool), SIZE)
    method = make_method(method_settings(name, **SMALL[name] | options), backbone).double()
    with torch.no_grad():
        for parameter in method.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return method


def views(n=IMAGES):
    return torch.randn(2, n, 3, SIZE, SIZE, dtype=torch.float64)


def drawn_for(method, n=IMAGES):
    return method.draw(n, generator("drawn"))


def loss_of(method, x, drawn, **options):
    return method(x[: method.num_views], drawn=drawn, **options)


def terms_of(method, x, drawn):
    loss_of(method, x, drawn, watch=True)
    return dict(method.terms)


def seen_by(method, x, drawn):
    """What the encoder gives, what the heads read and what the decoder predicts."""
    seen = {}
    hooks = [
        method.backbone.network.norm.register_forward_hook(
            lambda _, args, out: seen.update(tokens=out)
        ),
        method.decoder.register_forward_hook(
            lambda _, args, out: seen.update(prediction=out, level=(*args, None)[2])
        ),
    ]
    if hasattr(method, "heads"):
        hooks.append(
            method.heads.register_forward_hook(
                lambda _, args, out: seen.setdefault("features", []).append(args[0])
            )
        )
    loss_of(method, x, drawn)
    for hook in hooks:
        hook.remove()
    if "features" in seen:
        seen["features"] = torch.cat(seen["features"])
    return seen
