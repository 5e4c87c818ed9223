"""Every temperature scheme beside its literal reference, for samples and for channels."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from amcl.temperature import (
    AdaptiveTemperature,
    AlignmentTemperature,
    ArtanhTemperature,
    ConstantTemperature,
    FirstHeadTemperature,
    LearnableTemperature,
    OneSidedTemperature,
    PositiveScaleTemperature,
    ScheduledTemperature,
    SimilarityTemperature,
    SplitTemperature,
    Temperature,
    UncertaintyTemperature,
)
from reference import cross_correlation as channels
from reference import temperature as samples
from reference.temperature import Item


@dataclass
class Scheme:
    make: Callable[[int], Temperature]
    on_samples: Callable[[Temperature], Callable]
    on_channels: Callable[[Temperature], Callable] | None
    detached: bool = False  # τ depends on z and passes no gradient, so that gradcheck fails


def phi_layers(adaptive):
    linears = [layer for layer in adaptive.phi if isinstance(layer, torch.nn.Linear)]
    return [(layer.weight.tolist(), layer.bias.tolist()) for layer in linears]


def scale_of(adaptive):
    """ρ, None where φ is plain."""
    return None if adaptive.phi_output == "plain" else adaptive.phi_scale


def _adaptive(**options):
    return lambda dim: AdaptiveTemperature(dim, **options)


def _adaptive_samples(scheme, shared=False):
    layers = phi_layers(scheme)
    return samples.adaptive(layers, scheme.eta, scheme.iota, scale_of(scheme), shared=shared)


def _adaptive_channels(scheme):
    layers = phi_layers(scheme)
    return channels.phi_on_samples(layers, scheme.eta, scheme.iota, scale_of(scheme))


def _scheduled(dim):
    scheme = ScheduledTemperature(0.1, 1.0, 400)
    scheme.set_epoch(130)
    return scheme


SCHEMES = {
    "constant": Scheme(
        lambda dim: ConstantTemperature(0.3),
        lambda scheme: samples.constant(0.3),
        lambda scheme: channels.constant(0.3),
    ),
    "learnable": Scheme(
        lambda dim: LearnableTemperature(0.2),
        lambda scheme: samples.constant(scheme.log_tau.exp().item()),
        lambda scheme: channels.constant(scheme.log_tau.exp().item()),
    ),
    "adaptive": Scheme(_adaptive(eta=0.05, iota=1.0), _adaptive_samples, _adaptive_channels),
    "adaptive, plain φ": Scheme(
        _adaptive(eta=0.05, iota=1.0, phi_output="plain"), _adaptive_samples, _adaptive_channels
    ),
    "adaptive, depth 2": Scheme(
        _adaptive(lower=0.1, upper=0.6, phi_depth=2), _adaptive_samples, _adaptive_channels
    ),
    "constant positive": Scheme(
        lambda dim: SplitTemperature(
            positive=ConstantTemperature(0.3), negative=AdaptiveTemperature(dim)
        ),
        lambda scheme: samples.split(samples.constant(0.3), _adaptive_samples(scheme.negative)),
        lambda scheme: channels.split(channels.constant(0.3), _adaptive_channels(scheme.negative)),
    ),
    "constant negative": Scheme(
        lambda dim: SplitTemperature(
            positive=AdaptiveTemperature(dim), negative=ConstantTemperature(0.3)
        ),
        lambda scheme: samples.split(_adaptive_samples(scheme.positive), samples.constant(0.3)),
        lambda scheme: channels.split(_adaptive_channels(scheme.positive), channels.constant(0.3)),
    ),
    "first head": Scheme(
        lambda dim: FirstHeadTemperature(AdaptiveTemperature(dim)),
        lambda scheme: samples.first_head(_adaptive_samples(scheme.adaptive, shared=True)),
        lambda scheme: channels.first_head(_adaptive_channels(scheme.adaptive)),
    ),
    "TaU": Scheme(
        lambda dim: UncertaintyTemperature(0.1),
        lambda scheme: samples.uncertainty(0.1),
        lambda scheme: channels.uncertainty(0.1),
    ),
    "TS": Scheme(
        _scheduled,
        lambda scheme: samples.constant(samples.cosine_schedule(130, 0.1, 1.0, 400)),
        lambda scheme: channels.constant(samples.cosine_schedule(130, 0.1, 1.0, 400)),
    ),
    "MACL": Scheme(
        lambda dim: AlignmentTemperature(0.2, alpha=0.5, baseline=0.1, reweight=False),
        lambda scheme: samples.macl(0.2, 0.5, 0.1),
        lambda scheme: channels.macl(0.2, 0.5, 0.1),
        detached=True,
    ),
    "positive scale": Scheme(
        lambda dim: PositiveScaleTemperature(0.3),
        lambda scheme: samples.positive_scale(0.3),
        lambda scheme: channels.positive_scale(0.3),
        detached=True,
    ),
    "DySTreSS": Scheme(
        lambda dim: SimilarityTemperature(0.1, 0.4),
        lambda scheme: samples.dystress(0.1, 0.4),
        lambda scheme: channels.dystress(0.1, 0.4),
        detached=True,
    ),
    "artanh": Scheme(
        lambda dim: ArtanhTemperature(),
        lambda scheme: samples.artanh,
        lambda scheme: channels.artanh,
    ),
    "one-sided": Scheme(
        lambda dim: OneSidedTemperature(dim, lower=0.1, upper=0.6),
        lambda scheme: samples.one_sided(
            phi_layers(scheme), scheme.direction.tolist(), scheme.eta, scheme.iota, scheme.phi_scale
        ),
        None,
    ),
}
ON_CHANNELS = [name for name, scheme in SCHEMES.items() if scheme.on_channels]
PAIR_BY_PAIR = [name for name in SCHEMES if name not in ("MACL", "positive scale")]
"""Schemes whose temperatures do not depend on which pairs of the batch are positive."""
WITH_GRADIENT = [name for name, scheme in SCHEMES.items() if not scheme.detached]


def pair_up(anchors, positives):
    """Let items of two views be each other's positives."""
    for anchor, positive in zip(anchors, positives, strict=True):
        anchor.partner = positive
        positive.partner = anchor


def items(z, extra_outputs):
    """A (C, N, D + extra) tensor as the reference's list of N items."""
    vectors = z[..., : z.shape[-1] - extra_outputs].transpose(0, 1).tolist()
    scores = z[..., -1].T.tolist() if extra_outputs else [None] * len(vectors)
    batch = []
    batch += [Item(*both, batch) for both in zip(vectors, scores, strict=True)]
    return batch


def projections(scheme, *shapes):
    """Random float64 projections, as wide as the scheme wants them."""
    return [
        torch.randn(c, n, d + scheme.extra_outputs, dtype=torch.float64, requires_grad=True)
        for c, n, d in shapes
    ]
