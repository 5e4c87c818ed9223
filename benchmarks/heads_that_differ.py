"""What the heads and the backbone of trained runs tell apart, on test images.

    python benchmarks/heads_that_differ.py            # all sets whose sweeps are here
    python benchmarks/heads_that_differ.py stl10      # one of them

It reads the runs of the sweeps of benchmarks/evidence (`python benchmarks/evidence.py run NAME`)
and compares a constant temperature, AMCL, and AMCL with the penalty on heads that agree:

- retrieval by the backbone, by each head and by all heads together: kNN accuracy from labeled
  training images;
- robustness to each kind of augmentation: each test image gets one kind, always and as strong as in
  training. kNN accuracy then, and the share of images that find their own unchanged picture first
  among 1,000.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from results_files import RESULTS, conditions, write_results

from amcl.checkpoints import open_model
from amcl.checkpoints.method import load_method
from amcl.data import Images, stream
from amcl.data.split import sample
from amcl.evaluation.build import EvaluationData, input_transform, make_evaluation
from amcl.functional import unit
from amcl.methods import HeadMethod
from amcl.metrics.knn import knn_accuracy
from amcl.results import Measurement
from amcl.results.formatting import format_spread
from amcl.seeds import generator, seed_of
from amcl.sweep.folder import SweepFolder
from amcl.views import Views, ViewSettings

SWEEPS = Path("sweeps")
BANK = 10_000  # labeled training images, at most
GALLERY = 1_000  # images that each finds its own picture among
BATCH = 256
KINDS = {
    "unchanged": "",
    "crop": "a",
    "blur": "b",
    "gray": "c",
    "jitter": "d",
    "flip": "e",
}
SETS: dict[str, tuple[str, dict[str, tuple[str, dict[str, str]]]]] = {
    "cifar10": (
        "CIFAR-10, 20,000 images, 3,120 steps",
        {
            "constant τ": ("more-base", {}),
            "AMCL": ("more-diversity", {"head_diversity": "0.0"}),
            "AMCL + penalty": ("more-diversity", {"head_diversity": "1.0"}),
        },
    ),
    "stl10": (
        "STL-10, 4,000 images, 240 steps",
        {
            "constant τ": ("stl10-simclr-base", {"tau": "0.2"}),
            "AMCL": ("stl10-diversity", {"head_diversity": "0.0"}),
            "AMCL + penalty": ("stl10-diversity", {"head_diversity": "1.0"}),
        },
    ),
}
"""Title and sides of each set of images: a study, and the values of its runs but for the seed."""


@dataclass(frozen=True)
class Vectors:
    """Vectors of N images: of the backbone (N, d), and of heads (C, N, D)."""

    h: torch.Tensor
    z: torch.Tensor

    def spaces(self) -> dict[str, torch.Tensor]:
        """Return vectors (N, ·) by name. The cosine of "all heads" is the mean of theirs."""
        z = unit(self.z)
        heads = {f"head {c}": of_head for c, of_head in enumerate(z, start=1)}
        joint = z.transpose(0, 1).flatten(1)
        return {"backbone": self.h} | heads | {"all heads": joint}


def only(kind: str, trained: ViewSettings) -> ViewSettings:
    """Return views with one kind of augmentation, which always happens, as strong as in training.

    >>> only("c", ViewSettings(gray_p=0.2)).gray_p
    1.0
    """
    return replace(
        trained,
        operations=kind,
        flip_p=1.0,
        jitter_p=1.0,
        gray_p=1.0,
        blur_p=(1.0, 1.0),
        min_overlap=0.0,
        overlap=None,
        local_crops=0,
    )


@torch.no_grad()
def vectors(method: HeadMethod, images: Images, rows: torch.Tensor, views: Views) -> Vectors:
    """Return the vectors of a view of each of some images; the same view for every method."""
    h = []
    z = []
    settings = views.settings
    random = generator(0, "robustness", settings.operations)
    for batch in stream(images, rows.split(BATCH), workers=0):
        drawn = views.draw(len(batch.pixels), generator=random, shapes=batch.shapes)
        features = method.backbone(views(batch.pixels, drawn.first()).squeeze(0))
        h.append(features)
        z.append(method.heads(features)[..., : method.settings.dim])
    return Vectors(torch.cat(h), torch.cat(z, dim=1))


def own_image(queries: torch.Tensor, gallery: torch.Tensor) -> float:
    """Return the share of queries whose most similar vector of the gallery is in their own row.

    >>> own_image(torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, -0.1]]))
    0.5
    """
    nearest = (unit(queries) @ unit(gallery).T).argmax(1)
    return (nearest == torch.arange(len(queries))).double().mean().item()


def evaluate(run: Path) -> dict[str, Any]:
    """Return all measures of a run, on its test images."""
    method = load_method(run)
    model = open_model(run)
    if model.config is None or not isinstance(method, HeadMethod):
        sys.exit(f"{run} is no run of a method with heads.")
    evaluation = make_evaluation(model, EvaluationData(split="test"), accelerator="cpu")
    bank, queries = evaluation.probe.bank, evaluation.probe.queries
    transform = input_transform(model, None, evaluation.data.train)
    trained = model.config.views
    plain = transform.views(only("", trained))
    chosen = sample(len(bank.labels), BANK, seed_of(0, "bank"))
    labeled = vectors(method, bank.images, chosen, plain).spaces()
    labels = bank.labels[chosen]
    rows = torch.arange(len(queries.labels))
    gallery = sample(len(rows), GALLERY, seed_of(0, "gallery"))
    result: dict[str, Any] = {"images": {"bank": len(chosen), "test": len(rows)}, "kinds": {}}
    unchanged: dict[str, torch.Tensor] = {}
    for kind, letters in KINDS.items():
        views = transform.views(only(letters, trained))
        found = vectors(method, queries.images, rows, views).spaces()
        unchanged = unchanged or found
        measured = {}
        for name in found if kind == "unchanged" else ("backbone", "all heads"):
            accuracy = knn_accuracy(labeled[name], labels, found[name], queries.labels)
            measured[name] = {"knn": accuracy}
            if kind != "unchanged":
                pictures = unchanged[name][gallery]
                measured[name]["own_image"] = own_image(found[name][gallery], pictures)
        result["kinds"][kind] = measured
    return result


def runs_of(study: str, values: dict[str, str]) -> Iterator[tuple[int, Path]]:
    """Yield the seed and the folder of the runs of a sweep that have ended with these values."""
    folder = SweepFolder(SWEEPS / study)
    if not folder.exists():
        return
    for record in folder.records():
        others = {name: value for name, value in record.values.items() if name != "seed"}
        if record.status == "complete" and others == values:
            yield int(record.values["seed"]), folder.run(record.name)


def measure(name: str) -> dict[str, dict[str, Any]]:
    """Return the measures of every run of a set of images, by side and seed."""
    sides: dict[str, dict[str, Any]] = {}
    for side, (study, values) in SETS[name][1].items():
        for seed, run in runs_of(study, values):
            print(f"{name}, {side}, seed {seed}")
            sides.setdefault(side, {})[str(seed)] = evaluate(run)
    return sides


def spread(by_seed: dict[str, float], base: dict[str, float] | None = None) -> str:
    """Return mean ± standard deviation in percent, with the difference to `base` in brackets."""
    ours = Measurement.of({int(seed): value for seed, value in by_seed.items()})
    text = format_spread(ours.mean, ours.std, share=True)
    if base is None:
        return text
    gain = ours.minus(Measurement.of({int(seed): value for seed, value in base.items()}))
    return f"{text} ({format_spread(gain.mean, gain.std, share=True, sign=True)})"


def values_of(runs: dict[str, Any], kind: str, space: str, measure: str) -> dict[str, float]:
    """Return a measure of the runs of a side by seed; of "each head" the mean over heads."""
    by_seed = {}
    for seed, run in runs.items():
        measured = run["kinds"][kind]
        names = [n for n in measured if n.startswith("head ")] if space == "each head" else [space]
        by_seed[seed] = statistics.fmean(measured[name][measure] for name in names)
    return by_seed


def table(sides: dict[str, dict[str, Any]], rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Return a table with a column for each side; rows have a label, kind, space and measure."""
    base, *others = sides
    lines = [f"| | {' | '.join(sides)} |", "|---" * (len(sides) + 1) + "|"]
    for label, *what in rows:
        reference = values_of(sides[base], *what)
        cells = [spread(reference)]
        cells += [spread(values_of(sides[side], *what), reference) for side in others]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def section(name: str, sides: dict[str, dict[str, Any]]) -> str:
    """Return the tables of a set of images."""
    retrieval = [
        (space, "unchanged", space, "knn") for space in ("backbone", "each head", "all heads")
    ]
    changed = [kind for kind in KINDS if kind != "unchanged"]
    knn = [(f"{kind}, kNN", kind, "backbone", "knn") for kind in changed]
    own = [(f"{kind}, own image", kind, "backbone", "own_image") for kind in changed]
    seeds = ", ".join(f"{side}: {len(runs)}" for side, runs in sides.items())
    return (
        f"## {SETS[name][0]}\n\nSeeds: {seeds}. In brackets the difference to the first column, "
        f"paired by seed.\n\nkNN of unchanged test images:\n\n{table(sides, retrieval)}\n\n"
        f"By the backbone, where test images get one kind of augmentation:\n\n"
        f"{table(sides, [*knn, *own])}\n"
    )


def page(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the tables of all sets of images."""
    return "\n".join(section(name, results[name]) for name in SETS if name in results)


def main() -> None:
    """Evaluate the runs and write the results; sets that are not measured are kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", choices=[[], *SETS], help="sets of images; none: all")
    args = parser.parse_args()
    kept = RESULTS / "heads_that_differ.json"
    results = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for name in args.sets or SETS:
        if sides := measure(name):
            results[name] = sides
    note = f"{conditions()}. Repeat with `python benchmarks/heads_that_differ.py`.\n"
    write_results("heads_that_differ", "Heads that differ", f"{page(results)}\n{note}", results)


if __name__ == "__main__":
    main()
