"""Several heads against one wider head."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from amcl.analysis.cost import image_size_of
from amcl.backbones import Backbone, BackboneSettings
from amcl.config import Config
from amcl.config.fields import value_of, with_values
from amcl.experiments.analyses.registry import analysis
from amcl.experiments.specs import CellSpec, Metric, TableSpec, along, dashed, positive
from amcl.recipes import with_amcl

ENOUGH = 3.0  # times the weights of the several heads: no wider head is tried
WIDTHS = ("1", "2", "3", "4", "5")


@analysis("wider", "would one wider head do as well as several?", values=WIDTHS, few=("1", "3"))
def wider(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
    """Return one head with every layer several times as wide, beside several heads."""
    cells: tuple[CellSpec, ...] = ()
    for scheme in ("constant", "adaptive"):
        several = with_values(with_amcl(base), {"temperature": scheme})
        name = f"{value_of(several, 'heads')} heads"
        of_scheme = dashed("width", {name: several}, metric)
        for label, config in _wide(base, several, values).items():
            of_scheme += along("width", [label], {"1 head": config}, metric, lambda c, _: c)
        cells += tuple(
            replace(cell, labels={**cell.labels, "temperature": scheme}) for cell in of_scheme
        )
    return [
        TableSpec(
            name="wider",
            title="Several heads against one wider head",
            how_to_read="One head, every layer this many times as wide; in brackets its weights, "
            "where the several heads have 1. Dashed: the several heads.",
            cells=cells,
            x="width",
            panels="temperature",
        )
    ]


def _wide(base: Config, several: Config, values: Sequence[str]) -> dict[str, Config]:
    """Return configurations of one head by their labels, until one has weights enough."""
    projector: tuple[int, ...] = value_of(base, "projector")
    weights = _head_weights(several)
    configs: dict[str, Config] = {}
    ratio = 0.0
    for value in values:
        if ratio >= ENOUGH and tuple(values) == WIDTHS:
            break
        factor = positive("width", value)
        wide = tuple(round(factor * width) for width in projector)
        config = with_values(several, {"heads": 1, "projector": wide})
        ratio = max(ratio, _head_weights(config) / weights)
        configs[f"{factor:g}× ({_head_weights(config) / weights:.1f} of the weights)"] = config
    return configs


def _head_weights(config: Config) -> int:
    """Return the number of weights of the projection heads."""
    method: Any = config.method
    dim = _dim(config.backbone, image_size_of(config))
    with torch.device("meta"):
        heads = method.make_heads(dim, method.heads)
    return sum(p.numel() for p in heads.parameters())


@cache
def _dim(backbone: BackboneSettings, image_size: int) -> int:
    """Return the width of a backbone's features."""
    with torch.device("meta"):
        return Backbone(backbone, image_size).dim
