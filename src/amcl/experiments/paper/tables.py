"""The paper's tables."""

from collections.abc import Sequence
from dataclasses import replace

from amcl.experiments.analyses import ANALYSES
from amcl.experiments.analyses.temperatures import temperatures
from amcl.experiments.analyses.training import few_label_part
from amcl.experiments.cases import (
    BASELINE,
    FINETUNED,
    FIRST_LOSS,
    KNN,
    LINEAR,
    LOSS,
    SIDE,
    Case,
    Metric,
    Part,
    sides,
)
from amcl.experiments.entries import Entry
from amcl.experiments.paper.numbers import TABLE_3, TABLE_4, TABLE_5, TABLE_6
from amcl.experiments.scales import Scale
from amcl.methods import settings_class
from amcl.recipes import recipe, with_amcl
from amcl.sweep.fields import with_values
from amcl.training import Config

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


def elsewhere(part: Part, sets: Sequence[str], own: Sequence[str]) -> Part:
    """The part, with a word where the paper's numbers are of another set than the runs."""
    if all(name in own for name in sets):
        return part
    told = f"The paper's numbers are of {', '.join(own)}; the runs here are on {', '.join(sets)}."
    return replace(part, notes=(*part.notes, told))


def _config(scale: Scale, data: str, method: str) -> Config:
    """A method as published, with the epochs that the paper has for the set."""
    config = scale.config(data, method)
    if scale.own_data and data in _EPOCHS:
        return with_values(config, {"epochs": _EPOCHS[data]})
    return config


def _table_of_losses(scale: Scale, sets: tuple[str, ...], amcl: bool) -> list[Part]:
    """Every loss, trained: the first and the last epoch, and what was learned."""
    cases = []
    for method in ALL:
        config = _config(scale, sets[0], method)
        name, *equations = _LOSSES[method]
        labels = {"method": settings_class(method).title, "loss": f"{name} (Eq. {equations[amcl]})"}
        cases += [
            Case(
                labels={**labels, "number": metric.name},
                config=with_amcl(config) if amcl else config,
                metric=metric,
            )
            for metric in (FIRST_LOSS, LOSS, KNN)
        ]
    return [
        Part(
            name="losses",
            title="The losses with AMCL, trained" if amcl else "The standard losses, trained",
            told="The paper prints equations here. Each is a loss of this library, held to its "
            "literal form by the tests (docs/equations.md); here each of them trains.",
            cases=tuple(cases),
            columns="number",
            x="method",
            panels="number",
            ordered=False,
        )
    ]


def _table_3(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """All methods on all sets, by kNN and by a linear probe."""
    return [_methods_and_sets(scale, sets, metric) for metric in (KNN, LINEAR)]


def _methods_and_sets(scale: Scale, sets: tuple[str, ...], metric: Metric) -> Part:
    cases = []
    for data in sets:
        small = scale.own_data and data.startswith("cifar")
        for method in RESNETS if small else ALL:
            config = _config(scale, data, method)
            cases += [
                Case(
                    labels={"data": data, SIDE: side, "method": settings_class(method).title},
                    config=own,
                    metric=metric,
                )
                for side, own in sides(config).items()
            ]
    part = Part(
        name="knn" if metric is KNN else "linear",
        title=f"Methods with and without AMCL: {metric.name}",
        told="The paper says kNN for small sets in its text and linear probing in its captions: "
        "here are both, beside the same numbers.",
        cases=tuple(cases),
        columns="method",
        x="method",
        series=SIDE,
        panels="data" if len(sets) > 1 else None,
        ordered=False,
        compared=SIDE,
    )
    known = dict(TABLE_3)
    for data in sets:  # a set that the paper does not have stands beside CIFAR-10
        if data not in _EPOCHS:
            known |= {(data, *k[1:]): v for k, v in TABLE_3.items() if k[0] == "cifar10"}
    other = [data for data in sets if data not in _EPOCHS]
    told = f"{', '.join(other)} is none of the paper's sets: beside it stand those of CIFAR-10."
    return replace(part.with_paper(known), notes=(told,) if other else ())


def _table_4(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """Vision transformers, fine-tuned."""
    cases = []
    for backbone in ("ViT-B", "ViT-L") if scale.own_data else ("ViT-B",):
        for method in ("mae", "mocov3", "lgp"):
            config = scale.config(sets[0], method)
            if scale.own_data:
                large = "-large" * (backbone == "ViT-L")
                config = with_values(recipe(f"imagenet-{method}{large}"), {"data": sets[0]})
                long = {"mae_epochs": 1600} if method == "lgp" else {"epochs": 1600}
                config = with_values(config, long)
            both = {BASELINE: config} if method == "mae" else sides(config)
            cases += [
                Case(
                    labels={
                        "backbone": backbone,
                        "method": settings_class(method).title,
                        SIDE: side,
                    },
                    config=own,
                    metric=FINETUNED,
                )
                for side, own in both.items()
            ]
    part = Part(
        name="finetuned",
        title="Vision transformers after fine-tuning",
        told="All weights are trained on the labels. MAE has no heads, and so no AMCL form.",
        cases=tuple(cases),
        columns="method",
        x="method",
        series=SIDE,
        panels="backbone",
        ordered=False,
        compared=SIDE,
    )
    told = "ViT-B is here timm's smallest vision transformer."
    if scale.own_data:
        told = "The paper says 1,600 epochs for all; LGP has them in its first stage, MAE, and 300 "
        told += "in its second, as published."
    part = replace(part, notes=(told,))
    return [elsewhere(part.with_paper(TABLE_4), sets, ("imagenet",))]


def _table_5(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """SimCLR with few labels, by temperature."""
    base = scale.config(sets[0], "simclr")
    [schemes] = temperatures(base, ("uncertainty", "scheduled"), KNN)
    tau, ts = (case.config for case in schemes.cases[1:])
    configs = {**sides(base), "TaU": tau, "TS": ts}
    chosen = ANALYSES["labels"]
    part = few_label_part(configs, chosen.few if scale.few else chosen.values)
    told = "The baseline has one head; AMCL, TaU and TS have three."
    part = replace(part, name="temperatures", title="Temperatures, by labels", notes=(told,))
    return [elsewhere(part.with_paper(TABLE_5), sets, ("stl10",))]


def _table_6(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """One kind of augmentation after the other, four methods."""
    chosen = ANALYSES["augmentations"]
    cases = []
    for method in RESNETS:
        base = _config(scale, sets[0], method)
        [part] = chosen.parts(base, chosen.few if scale.few else (), LINEAR)
        cases += [
            replace(case, labels={**case.labels, "method": settings_class(method).title})
            for case in part.cases
        ]
    cases.sort(key=lambda case: len(case.labels["augmentations"]))
    part = Part(
        name="augmentations",
        title="Kinds of augmentation",
        told="a crop, b blur, c gray, d color jitter, e flip. The paper's central claim: the more "
        "kinds, the more AMCL gains.",
        cases=tuple(cases),
        columns="method",
        x="augmentations",
        series=SIDE,
        panels="method",
        compared=SIDE,
    )
    return [elsewhere(part.with_paper(TABLE_6), sets, ("cifar100",))]


TABLES = (
    Entry(
        name="table-1",
        title="the standard losses of six methods",
        sets=("cifar10",),
        make=lambda scale, sets: _table_of_losses(scale, sets, amcl=False),
    ),
    Entry(
        name="table-2",
        title="the same losses with AMCL",
        sets=("cifar10",),
        make=lambda scale, sets: _table_of_losses(scale, sets, amcl=True),
    ),
    Entry(
        name="table-3",
        title="six methods with and without AMCL on four sets",
        sets=tuple(_EPOCHS),
        make=_table_3,
    ),
    Entry(
        name="table-4",
        title="vision transformers on ImageNet, fine-tuned",
        sets=("imagenet",),
        make=_table_4,
    ),
    Entry(
        name="table-5",
        title="temperature schemes with few labels",
        sets=("stl10",),
        make=_table_5,
    ),
    Entry(
        name="table-6",
        title="kinds of augmentation: gains that grow with them",
        sets=("cifar100",),
        make=_table_6,
    ),
    Entry(
        name="table-7",
        title="detection and segmentation on COCO",
        sets=("coco",),
        unavailable="detection and segmentation are not in this version yet",
    ),
    Entry(
        name="table-8",
        title="parameters and FLOPs with and without AMCL",
        shows="cost",
    ),
)
