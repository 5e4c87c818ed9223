"""What the number of heads does, against one wider head, and over how many negatives."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from amcl.analysis.cost import image_size_of
from amcl.backbones import Backbone, BackboneSettings
from amcl.experiments.analyses.pieces import dashed, number, with_field
from amcl.experiments.cases import BASELINE, SIDE, Case, Metric, Part
from amcl.methods.contrastive import ContrastiveSettings
from amcl.recipes import as_published, with_amcl
from amcl.sweep.fields import value_of, with_values
from amcl.training import Config

ENOUGH = 3.0  # times the weights of the several heads: no wider head is tried
WIDTHS = ("1", "2", "3", "4", "5")


def heads(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """C projection heads with adaptive temperatures."""
    amcl = with_amcl(base)
    cases = [dashed("heads", BASELINE, as_published(base), metric)]
    cases += [
        Case(
            labels={"heads": v, SIDE: "adaptive τ"},
            config=with_field(amcl, "heads", v),
            metric=metric,
        )
        for v in values
    ]
    return [
        Part(
            name="heads",
            title="Number of projection heads",
            told="The dashed line is the method as published: one head, constant temperature.",
            cases=tuple(cases),
            columns="heads",
            x="heads",
            series=SIDE,
        )
    ]


def negatives(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """The κ hardest negatives against all of them."""
    if not isinstance(base.method, ContrastiveSettings):
        raise ValueError(
            f"{base.method.name} compares no negatives: choose simclr, moco, mocov3, can or lgp."
        )
    amcl = with_amcl(base)
    kappas = dict.fromkeys(_kappa(v, base.negatives) for v in values)
    names = {"top_k": "mean of the top κ", "top_k_softmax": "softmax of the top κ"}
    cases = [
        dashed("κ", BASELINE, as_published(base), metric),
        dashed("κ", "softmax of all", with_values(amcl, {"form": "softmax"}), metric),
    ]
    cases += [
        Case(
            labels={"κ": str(kappa), SIDE: name},
            config=with_values(amcl, {"form": form, "top_k": kappa}),
            metric=metric,
        )
        for form, name in names.items()
        for kappa in kappas
    ]
    return [
        Part(
            name="negatives",
            title=f"The κ most similar of {base.negatives} negatives",
            told="The paper averages over the top κ of each head, with nothing to weigh them; a "
            "softmax over the same κ does. Dashed: all negatives, and the method as published.",
            cases=tuple(cases),
            columns="κ",
            x="κ",
            series=SIDE,
        )
    ]


def wider(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """One head with every layer so many times as wide, against several heads."""
    several = with_amcl(base)
    projector: tuple[int, ...] = value_of(base, "projector")
    weights = _head_weights(several)
    cases = []
    for scheme in ("constant", "adaptive"):
        multi = with_values(several, {"temperature": scheme})
        ratios: list[float] = []
        cases.append(dashed("width", f"{value_of(several, 'heads')} heads", multi, metric, scheme))
        for v in values:
            factor = number("width", v)
            wide = tuple(round(factor * width) for width in projector)
            config = with_values(multi, {"heads": 1, "projector": wide})
            ratio = _head_weights(config) / weights
            if ratios and max(ratios) >= ENOUGH and tuple(values) == WIDTHS:
                break
            ratios.append(ratio)
            labels = {"width": f"{factor:g}× ({ratio:.1f} of the weights)", SIDE: "1 head"}
            cases.append(
                Case(labels={**labels, "temperature": scheme}, config=config, metric=metric)
            )
    return [
        Part(
            name="wider",
            title="Several heads against one wider head",
            told="One head, every layer so many times as wide; in brackets its weights, where the "
            "several heads have 1. Dashed: the several heads.",
            cases=tuple(cases),
            columns="width",
            x="width",
            series=SIDE,
            panels="temperature",
        )
    ]


def _kappa(text: str, negatives: int) -> int:
    """κ as a number, or as a share of the negatives."""
    if text.endswith("%"):
        return max(1, round(number("κ", text[:-1]) / 100 * negatives))
    if not text.isdecimal():
        raise ValueError(f"κ is a whole number, or a share such as 10%; got {text!r}.")
    return int(text)


def _head_weights(config: Config) -> int:
    """How many numbers the projection heads learn."""
    method: Any = config.method
    dim = _dim(config.backbone, image_size_of(config))
    with torch.device("meta"):
        heads = method.make_heads(dim, method.heads)
    return sum(p.numel() for p in heads.parameters())


@cache
def _dim(backbone: BackboneSettings, image_size: int) -> int:
    """How wide a backbone's features are."""
    with torch.device("meta"):
        return Backbone(backbone, image_size).dim
