"""The paper's figures, and what it says in words alone."""

from dataclasses import replace

from amcl.experiments.analyses import ANALYSES
from amcl.experiments.analyses.temperatures import temperatures
from amcl.experiments.analyses.training import few_label_part
from amcl.experiments.cases import BASELINE, KNN, LINEAR, SIDE, Case, Metric, Part, of_pairs, sides
from amcl.experiments.entries import Entry
from amcl.experiments.scales import Scale
from amcl.methods import settings_class
from amcl.recipes import as_published, recipe, with_amcl
from amcl.sweep.fields import with_values
from amcl.training import Config

_APART = {
    "heads": ("after the heads", "overlap_heads", "auroc_heads"),
    "backbone": ("after the backbone", "overlap_backbone", "auroc_backbone"),
}


def _analysis(scale: Scale, name: str, base: Config, metric: Metric) -> list[Part]:
    chosen = ANALYSES[name]
    return chosen.parts(base, chosen.few if scale.few else chosen.values, metric)


def _figure_1(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """How far positive pairs stand from negative ones, by the number of augmentations."""
    base = scale.config(sets[0], "simclr")
    runs = {
        (views, side): with_values(config, {"views": views})
        for views in ("a", "abc", "abcde")
        for side, config in sides(base).items()
    }
    cases = [
        Case(labels={"augmentations": views, SIDE: side, "measure": m.name}, config=c, metric=m)
        for (views, side), c in runs.items()
        for m in _measures("heads")
    ]
    return [
        Part(
            name="separation",
            title="How far positive pairs stand from negative ones, after the heads",
            told="The overlap is what the two histograms share; the AUROC how often a positive "
            "pair is more alike than a negative one. Similarities are scaled by their "
            "temperatures.",
            cases=tuple(cases),
            columns="augmentations",
            x="augmentations",
            series=SIDE,
            panels="measure",
        )
    ]


def _figure_3(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """The same after the heads and after the backbone."""
    base = scale.config(sets[0], "simclr")
    cases = [
        Case(labels={"place": _APART[place][0], SIDE: side, "measure": m.name}, config=c, metric=m)
        for place in _APART
        for side, c in sides(base).items()
        for m in _measures(place)
    ]
    return [
        Part(
            name="separation",
            title="How far positive pairs stand from negative ones",
            told="The overlap is what the two histograms share; the AUROC how often a positive "
            "pair is more alike than a negative one.",
            cases=tuple(cases),
            columns="measure",
            x="place",
            series=SIDE,
            panels="measure",
            ordered=False,
        )
    ]


def _measures(place: str) -> tuple[Metric, Metric]:
    _, overlap, auroc = _APART[place]
    return of_pairs(overlap, "overlap of histograms"), of_pairs(auroc, "AUROC")


def _figure_4(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """Backbones and epochs, for SimCLR and for CAN."""
    vits = ("vit_base_patch16_224", "vit_large_patch16_224")
    tried = {"simclr": ("resnet50", "resnet50*2", "resnet50*4", *vits), "can": vits}
    if scale.name == "cpu":
        tried = {"simclr": ("resnet18*0.25", "resnet18*0.5"), "can": ("own",)}
    elif scale.name == "smoke":
        tried = {"simclr": ("own",), "can": ("own",)}
    parts = []
    for method, backbones in tried.items():
        base = scale.config(sets[0], method)
        if scale.own_data:
            base = with_values(base, {"epochs": 400})
        [part] = ANALYSES["backbones"].parts(base, backbones, LINEAR)
        title = f"Backbones and epochs: {settings_class(method).title}"
        cases = tuple(_for_vits(case) for case in part.cases)
        parts.append(replace(part, name=f"backbones-{method}", title=title, cases=cases))
    return parts


def _for_vits(case: Case) -> Case:
    """A vision transformer is trained as MoCo v3 does it, whatever the method."""
    if case.labels["backbone"].startswith("vit") and case.config.method.name == "simclr":
        optimizer = recipe("imagenet-mocov3").optimizer
        return replace(case, config=replace(case.config, optimizer=optimizer))
    return case


def _figure_5(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """The number of heads, and the κ hardest negatives."""
    base = scale.config(sets[0], "simclr")
    return [
        *_analysis(scale, "heads", base, LINEAR),
        *_analysis(scale, "negatives", base, LINEAR),
    ]


def _figure_7(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """Heads, and ways to a temperature, against the number of labels."""
    base = scale.config(sets[0], "simclr")
    amcl = with_amcl(base)
    one = with_values(amcl, {"heads": 1})
    counts = ANALYSES["labels"].few if scale.few else ANALYSES["labels"].values
    left = few_label_part(
        {BASELINE: as_published(base), "C = 1, adaptive": one, "C = 3, adaptive": amcl}, counts
    )
    schemes = {
        "constant": "constant",
        "constant τ⁺": "adaptive-negative",
        "constant τ⁻": "adaptive-positive",
        "from head 1": "first-head",
        "fully adaptive": "adaptive",
    }
    [tried] = temperatures(base, tuple(schemes.values()), KNN)
    configs = {case.labels["temperature"]: case.config for case in tried.cases}
    right = few_label_part({name: configs[s] for name, s in schemes.items()}, counts)
    return [
        replace(left, name="heads", title="Several heads against one"),
        replace(right, name="temperatures", title="Ways to a temperature, three heads"),
    ]


def _figure_8(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """Crops that share little, temperatures, and strong colors."""
    base = scale.config(sets[0], "simclr")
    return [
        *_analysis(scale, "overlap", base, LINEAR),
        *_analysis(scale, "color", base, LINEAR),
    ]


def _wider(scale: Scale, sets: tuple[str, ...]) -> list[Part]:
    """Several heads against one wider head."""
    parts = []
    for method in ("simclr", "barlow"):
        [part] = _analysis(scale, "wider", scale.config(sets[0], method), LINEAR)
        title = f"{part.title}: {settings_class(method).title}"
        parts.append(replace(part, name=f"wider-{method}", title=title))
    told = "The paper finds the several heads 1.6 points above the best wider head for SimCLR, 2.5 "
    told += "for Barlow Twins."
    return [replace(part, notes=(told,)) for part in parts]


FIGURES = (
    Entry(
        name="figure-1",
        title="similarities of pairs with 1, 3 and 5 augmentations",
        sets=("stl10",),
        make=_figure_1,
        histograms=True,
    ),
    Entry(
        name="figure-2",
        title="the three designs: one head, adaptive temperature, several heads",
        shows="designs",
    ),
    Entry(
        name="figure-3",
        title="similarities after the heads and after the backbone",
        sets=("stl10",),
        make=_figure_3,
        histograms=True,
    ),
    Entry(
        name="figure-4",
        title="backbones and epochs on ImageNet",
        sets=("imagenet",),
        make=_figure_4,
    ),
    Entry(
        name="figure-5",
        title="number of heads, top-κ against softmax",
        sets=("stl10",),
        make=_figure_5,
    ),
    Entry(
        name="figure-6",
        title="constant temperatures against adaptive ones",
        sets=("cifar100",),
        make=lambda scale, sets: _analysis(scale, "tau", scale.config(sets[0], "simclr"), KNN),
    ),
    Entry(
        name="figure-7",
        title="heads and temperatures, by the number of labels",
        sets=("stl10",),
        make=_figure_7,
    ),
    Entry(
        name="figure-8",
        title="overlap of crops, their temperatures, color distortion",
        sets=("stl10",),
        make=_figure_8,
    ),
    Entry(
        name="figure-9",
        title="sensitivity to η, ι and β",
        sets=("stl10",),
        make=lambda scale, sets: _analysis(
            scale, "sensitivity", scale.config(sets[0], "simclr"), LINEAR
        ),
    ),
    Entry(
        name="wider-head",
        title="several heads against one wider head (in the text)",
        sets=("stl10",),
        make=_wider,
    ),
)
