"""The paper's figures, and what it says in words alone."""

from dataclasses import replace

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.experiments.analyses.labels import by_labels
from amcl.experiments.analyses.registry import ANALYSES
from amcl.experiments.analyses.temperatures import with_scheme
from amcl.experiments.costs import design_topic
from amcl.experiments.paper.registry import ENTRIES, Entry, analyze, entry, entry_of_analyses
from amcl.experiments.scales import Scale
from amcl.experiments.specs import BASELINE, KNN, LINEAR, SIDE, CellSpec, TableSpec, of_pairs, sides
from amcl.methods import METHODS
from amcl.recipes import as_published, recipe, with_amcl

_VITS = ("vit_base_patch16_224", "vit_large_patch16_224")
_BACKBONES: dict[str, dict[str, tuple[str, ...]]] = {
    "paper": {"simclr": ("resnet50", "resnet50*2", "resnet50*4", *_VITS), "can": _VITS},
    "night": {"simclr": ("resnet10t*0.25", "resnet10t*0.5"), "can": ("own",)},
    "cpu": {"simclr": ("resnet18*0.25", "resnet18*0.5"), "can": ("own",)},
    "smoke": {"simclr": ("own",), "can": ("own",)},
}
_OVERLAP = (
    "The overlap is what the two histograms share; the AUROC how often a positive pair is more "
    "alike than a negative one."
)


def _separation(labels: dict[str, str], config: Config, level: str) -> list[CellSpec]:
    """Return overlap and AUROC after the "heads" or the "backbone"."""
    measures = (
        of_pairs(f"overlap_{level}", "overlap of histograms"),
        of_pairs(f"auroc_{level}", "AUROC"),
    )
    return [
        CellSpec(labels={**labels, "measure": m.name}, config=config, metric=m) for m in measures
    ]


@entry("figure-1", "similarities of pairs with 1, 3 and 5 augmentations", "stl10", histograms=True)
def pairs_by_augmentations(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return how far positive pairs stand from negative ones, by the number of augmentations."""
    cells: list[CellSpec] = []
    for views in ("a", "abc", "abcde"):
        for side, config in sides(scale.config(sets[0], "simclr")).items():
            labels = {"augmentations": views, SIDE: side}
            cells += _separation(labels, with_values(config, {"views": views}), "heads")
    return [
        TableSpec(
            name="separation",
            title="How far positive pairs stand from negative ones, after the heads",
            how_to_read=f"{_OVERLAP} Similarities are scaled by their temperatures.",
            cells=tuple(cells),
            x="augmentations",
            panels="measure",
        )
    ]


ENTRIES["figure-2"] = Entry(
    name="figure-2",
    title="the three designs: one head, adaptive temperature, several heads",
    count=lambda scale: ("the recipe for CIFAR-10", *design_topic()),
)


@entry("figure-3", "similarities after the heads and after the backbone", "stl10", histograms=True)
def pairs_by_level(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return how far positive pairs stand from negative ones after heads and backbone."""
    cells: list[CellSpec] = []
    for level in ("heads", "backbone"):
        for side, config in sides(scale.config(sets[0], "simclr")).items():
            cells += _separation({"place": f"after the {level}", SIDE: side}, config, level)
    return [
        TableSpec(
            name="separation",
            title="How far positive pairs stand from negative ones",
            how_to_read=_OVERLAP,
            cells=tuple(cells),
            columns="measure",
            x="place",
            panels="measure",
            ordered=False,
        )
    ]


@entry("figure-4", "backbones and epochs on ImageNet", "imagenet")
def backbones(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return backbones and epochs, for SimCLR and for CAN."""
    specs = []
    for method, names in _BACKBONES[scale.name].items():
        base = scale.config(sets[0], method)
        if scale.own_data:
            base = with_values(base, {"epochs": 400})
        [spec] = ANALYSES["backbones"].specs(base, names, LINEAR)
        title = f"Backbones and epochs: {METHODS[method].settings_class.title}"
        cells = tuple(_for_vits(cell) for cell in spec.cells)
        specs.append(replace(spec, name=f"backbones-{method}", title=title, cells=cells))
    return specs


def _for_vits(cell: CellSpec) -> CellSpec:
    """Return the cell; a vision transformer is trained like MoCo v3, whatever the method."""
    if cell.labels["backbone"].startswith("vit") and cell.config.method.name == "simclr":
        optimizer = recipe("imagenet-mocov3").optimizer
        return replace(cell, config=replace(cell.config, optimizer=optimizer))
    return cell


entry_of_analyses(
    "figure-5", "number of heads, top-κ against softmax", "stl10", "heads", "negatives"
)
entry_of_analyses(
    "figure-6", "constant temperatures against adaptive ones", "cifar100", "tau", metric=KNN
)


@entry("figure-7", "heads and temperatures, by the number of labels", "stl10")
def by_number_of_labels(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return heads, and temperature schemes, against the number of labels."""
    base = scale.config(sets[0], "simclr")
    amcl = with_amcl(base)
    counts = ANALYSES["labels"].few if scale.few else ANALYSES["labels"].values
    heads = {
        BASELINE: as_published(base),
        "C = 1, adaptive": with_values(amcl, {"heads": 1}),
        "C = 3, adaptive": amcl,
    }
    schemes = {
        "constant": "constant",
        "constant τ⁺": "adaptive-negative",
        "constant τ⁻": "adaptive-positive",
        "from head 1": "first-head",
        "fully adaptive": "adaptive",
    }
    temperatures = {name: with_scheme(base, scheme) for name, scheme in schemes.items()}
    by_heads = by_labels(heads, counts)
    by_scheme = by_labels(temperatures, counts)
    return [
        replace(by_heads, name="heads", title="Several heads against one"),
        replace(by_scheme, name="temperatures", title="Temperature schemes, three heads"),
    ]


entry_of_analyses(
    "figure-8",
    "overlap of crops, their temperatures, color distortion",
    "stl10",
    "overlap",
    "color",
)
entry_of_analyses("figure-9", "sensitivity to η, ι and β", "stl10", "sensitivity")


@entry("wider-head", "several heads against one wider head (in the text)", "stl10")
def wider_head(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
    """Return several heads against one wider head."""
    note = "The paper finds the several heads 1.6 points above the best wider head for SimCLR, 2.5 "
    note += "for Barlow Twins."
    specs = []
    for method in ("simclr", "barlow"):
        [spec] = analyze(scale, "wider", scale.config(sets[0], method))
        title = f"{spec.title}: {METHODS[method].settings_class.title}"
        specs.append(replace(spec, name=f"wider-{method}", title=title, notes=(note,)))
    return specs
