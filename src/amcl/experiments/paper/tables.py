"""The paper's tables."""

from collections.abc import Sequence
from dataclasses import replace

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.experiments.analyses.labels import by_labels
from amcl.experiments.analyses.registry import ANALYSES
from amcl.experiments.analyses.temperatures import with_scheme
from amcl.experiments.costs import cost_topic
from amcl.experiments.page import Topic
from amcl.experiments.paper.numbers import TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7
from amcl.experiments.paper.registry import ENTRIES, Entry, analyze, entry, with_note_on_sets
from amcl.experiments.scales import Scale
from amcl.experiments.specs import (
    BASELINE,
    BOX_AP,
    BOX_AP50,
    FINETUNED,
    FIRST_LOSS,
    KNN,
    LINEAR,
    LOSS,
    MASK_AP,
    NONE,
    SCRATCH,
    SIDE,
    CellSpec,
    Metric,
    TableSpec,
    sides,
)
from amcl.methods import METHODS
from amcl.recipes import recipe, with_amcl
from amcl.results import Table

RESNETS = ("simclr", "moco", "simsiam", "barlow")
ALL = (*RESNETS, "can", "lgp")
_EPOCHS = {"cifar10": 1000, "cifar100": 1000, "tinyimagenet": 800, "imagenet": 100}
_LOSSES = {
    "simclr": ("NT-Xent", "1.1", "2.1"),
    "moco": ("NT-Xent", "1.1", "2.1"),
    "simsiam": ("negative cosine", "1.2", "2.2"),
    "barlow": ("cross-correlation", "1.3", "2.3"),
    "can": ("InfoNCE", "1.4", "2.4"),
    "lgp": ("InfoNCE", "1.4", "2.4"),
}


def _config(scale: Scale, data: str, method: str) -> Config:
    """Return a method as published, with the epochs that the paper has for the set."""
    config = scale.config(data, method)
    if scale.own_data and data in _EPOCHS:
        return with_values(config, {"epochs": _EPOCHS[data]})
    return config


@entry("table-1", "the standard losses of six methods", "cifar10")
def standard_losses(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return every loss as published, trained."""
    return [_losses(scale, sets[0], amcl=False)]


@entry("table-2", "the same losses with AMCL", "cifar10")
def losses_with_amcl(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return every loss with AMCL, trained."""
    return [_losses(scale, sets[0], amcl=True)]


def _losses(scale: Scale, data: str, amcl: bool) -> TableSpec:
    """Return the first and the last loss of every method, and an accuracy."""
    cells = []
    for method in ALL:
        config = _config(scale, data, method)
        name, *equations = _LOSSES[method]
        labels = {
            "method": METHODS[method].settings_class.title,
            "loss": f"{name} (Eq. {equations[amcl]})",
        }
        cells += [
            CellSpec(
                labels={**labels, "number": metric.name},
                config=with_amcl(config) if amcl else config,
                metric=metric,
            )
            for metric in (FIRST_LOSS, LOSS, KNN)
        ]
    return TableSpec(
        name="losses",
        title="The losses with AMCL, trained" if amcl else "The standard losses, trained",
        how_to_read="The paper has equations here. Each is a loss of this library, held to its "
        "literal form by the tests (docs/equations.md); here each of them trains.",
        cells=tuple(cells),
        columns="number",
        x="method",
        panels="number",
        ordered=False,
    )


@entry("table-3", "six methods with and without AMCL on four sets", *_EPOCHS)
def methods(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return all methods on all sets, by kNN and by a linear probe."""
    return [_methods_by(metric, scale, sets) for metric in (KNN, LINEAR)]


def _methods_by(metric: Metric, scale: Scale, sets: tuple[str, ...]) -> TableSpec:
    cells = [
        CellSpec(
            labels={"data": data, SIDE: side, "method": METHODS[method].settings_class.title},
            config=c,
            metric=metric,
        )
        for data in sets
        for method in (RESNETS if scale.own_data and data.startswith("cifar") else ALL)
        for side, c in sides(_config(scale, data, method)).items()
    ]
    spec = TableSpec(
        name="knn" if metric is KNN else "linear",
        title=f"Methods with and without AMCL: {metric.name}",
        how_to_read="The paper says kNN for small sets in its text and linear probing in its "
        "captions: here are both, beside the same numbers.",
        cells=tuple(cells),
        x="method",
        panels="data" if len(sets) > 1 else None,
        ordered=False,
        compared=SIDE,
    )
    numbers = dict(TABLE_3)
    others = [data for data in sets if data not in _EPOCHS]
    for data in others:  # a set that the paper does not have stands beside CIFAR-10
        numbers |= {(data, *k[1:]): v for k, v in TABLE_3.items() if k[0] == "cifar10"}
    spec = spec.with_paper(numbers)
    if not others:
        return spec
    names = ", ".join(others)
    return spec.with_note(
        f"{names} is none of the paper's sets: beside it stand those of CIFAR-10."
    )


@entry("table-4", "vision transformers on ImageNet, fine-tuned", "imagenet")
def vision_transformers(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return vision transformers, fine-tuned."""
    cells = [
        CellSpec(labels={"backbone": backbone, **labels}, config=config, metric=FINETUNED)
        for backbone in _vits(scale)
        for method in ("mae", "mocov3", "lgp")
        for labels, config in _vit_sides(scale, sets[0], backbone, method)
    ]
    spec = TableSpec(
        name="finetuned",
        title="Vision transformers after fine-tuning",
        how_to_read="All weights are trained on the labels. MAE has no heads, and so no AMCL form.",
        cells=tuple(cells),
        x="method",
        panels="backbone",
        ordered=False,
        compared=SIDE,
        notes=(_note_on_vits(scale),),
    )
    return [with_note_on_sets(spec.with_paper(TABLE_4), sets, ("imagenet",))]


def _vits(scale: Scale) -> tuple[str, ...]:
    """Return the vision transformers of a scale, as tables call them."""
    return ("ViT-B", "ViT-L") if scale.own_data else ("ViT-B",)


def _vit_sides(
    scale: Scale, data: str, backbone: str, method: str
) -> list[tuple[dict[str, str], Config]]:
    """Return a method on a vision transformer, as published and with AMCL if it has heads."""
    config = scale.config(data, method)
    if scale.own_data:
        large = "-large" * (backbone == "ViT-L")
        config = with_values(recipe(f"imagenet-{method}{large}"), {"data": data})
        long = {"mae_epochs": 1600} if method == "lgp" else {"epochs": 1600}
        config = with_values(config, long)
    configs = {BASELINE: config} if method == "mae" else sides(config)
    title = METHODS[method].settings_class.title
    return [({"method": title, SIDE: side}, config) for side, config in configs.items()]


def _note_on_vits(scale: Scale) -> str:
    if not scale.own_data:
        return "ViT-B is here timm's smallest vision transformer."
    return (
        "The paper says 1,600 epochs for all; LGP has them in its first stage, MAE, and 300 in its "
        "second, as published."
    )


@entry("table-5", "temperature schemes with few labels", "stl10")
def schemes(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return SimCLR with few labels, by temperature scheme."""
    base = scale.config(sets[0], "simclr")
    configs = sides(base)
    configs |= {"TaU": with_scheme(base, "uncertainty"), "TS": with_scheme(base, "scheduled")}
    counts = ANALYSES["labels"]
    spec = by_labels(configs, counts.few if scale.few else counts.values)
    spec = replace(spec, name="temperatures", title="Temperatures, by labels")
    spec = spec.with_note("The baseline has one head; AMCL, TaU and TS have three.")
    return [with_note_on_sets(spec.with_paper(TABLE_5), sets, ("stl10",))]


@entry("table-6", "kinds of augmentation: gains that grow with them", "cifar100")
def augmentations(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return one kind of augmentation after the other, for four methods."""
    cells = []
    for method in RESNETS:
        [spec] = analyze(scale, "augmentations", _config(scale, sets[0], method))
        cells += [
            replace(cell, labels={**cell.labels, "method": METHODS[method].settings_class.title})
            for cell in spec.cells
        ]
    cells.sort(key=lambda cell: len(cell.labels["augmentations"]))
    spec = replace(
        spec,
        how_to_read="a crop, b blur, c gray, d color jitter, e flip. The paper's central claim: "
        "the more kinds, the more AMCL gains.",
        cells=tuple(cells),
        columns="method",
        panels="method",
    )
    return [with_note_on_sets(spec.with_paper(TABLE_6), sets, ("cifar100",))]


@entry("table-7", "detection and segmentation on COCO", "imagenet", detection="coco")
def detection(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return detectors that are trained end to end from vision transformers."""
    metrics = (BOX_AP, BOX_AP50, MASK_AP)
    cells = [
        CellSpec(
            labels={"measure": metric.name, "backbone": backbone, **labels},
            config=_for_detectors(scale, config),
            metric=metric,
        )
        for metric in metrics
        for backbone in _vits(scale)
        for method in ("mocov3", "lgp")
        for labels, config in _vit_sides(scale, sets[0], backbone, method)
    ]
    cells += [
        _scratch_cell(cells, metric, backbone) for metric in metrics for backbone in _vits(scale)
    ]
    spec = TableSpec(
        name="detection",
        title="Mask R-CNN from vision transformers",
        how_to_read="All weights are trained on boxes and masks. AP is the mean over classes and "
        "over overlaps from 0.50 to 0.95, AP50 that at an overlap of 0.50; all are in %. From "
        "scratch, the network starts from random weights.",
        cells=tuple(cells),
        x="method",
        columns="measure",
        panels="measure",
        ordered=False,
        compared=SIDE,
        notes=(_note_on_vits(scale), _note_on_detection(scale)),
    )
    return [with_note_on_sets(spec.with_paper(TABLE_7), sets, ("imagenet",))]


def _scratch_cell(cells: Sequence[CellSpec], metric: Metric, backbone: str) -> CellSpec:
    """Return the cell of the same network from random weights, which no method has trained."""
    first = next(c for c in cells if c.metric is metric and c.labels["backbone"] == backbone)
    labels = {**first.labels, "method": NONE, SIDE: SCRATCH}
    return replace(first, labels=labels, metric=replace(metric, scratch=True))


def _for_detectors(scale: Scale, config: Config) -> Config:
    """Return the configuration with the patches that detectors take at this scale."""
    if scale.detector_patch is None:
        return config
    return with_values(config, {"patch": scale.detector_patch})


def _note_on_detection(scale: Scale) -> str:
    if not scale.own_data:
        return (
            "So few images and steps show a direction at best: the paper's numbers are of COCO, "
            "with 118,000 training images and 100 epochs."
        )
    return (
        "Detectors are trained as in arXiv 2111.11429, which the paper follows through MAE. The "
        "paper does not say what it changed for ViT-L: here it has the settings of ViT-B. Relative "
        "positions are left out."
    )


def _cost(scale: Scale) -> tuple[str, Topic, Table]:
    data = "builtin" if scale.few else "imagenet"
    return f"the recipes for {data}", *cost_topic(data)


ENTRIES["table-8"] = Entry(
    name="table-8", title="parameters and FLOPs with and without AMCL", count=_cost
)
