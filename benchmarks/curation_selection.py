"""Accuracy after labeling pictures that `amcl curate --select` chose, against pictures at random.

    python benchmarks/curation_proof.py --stl10 data/stl10 --seeds 0 1
    python benchmarks/curation_selection.py --stl10 data/stl10 --seeds 0 1

It takes the networks and the planted pictures of curation_proof.py. Features are those of SimCLR +
AMCL; 100, 500 and 1,000 pictures are chosen and labeled, and kNN and a logistic regression with
them are judged on test images. The pool is once all pictures as they are in the folder, where rules
leave out the copies that `amcl curate` finds and a label spent on a foreign picture is lost, and
once the clean pictures alone.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from curation_measures import curations
from curation_proof import SETS, TITLES, canvas, pictures_of, spread
from planted_pictures import CLEAN, Planted, read_manifest
from results_files import RESULTS, conditions, write_results

from amcl.checkpoints import open_model
from amcl.curation import Curation
from amcl.curation.neighbors import unit_features
from amcl.curation.selection import RULES, select
from amcl.data import Images, MemoryImages, load_all_images
from amcl.drawing import DARK, FAINT, PALETTE, bare, legend_below, save_png
from amcl.evaluation.build import input_transform
from amcl.evaluation.protocols.logistic import fit
from amcl.metrics.features import features_of
from amcl.metrics.knn import knn_accuracy
from amcl.results.charts import panels
from amcl.seeds import generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTS = (100, 500, 1000)
RANDOM = "random"
LEAST = "least uncertain"
SEEDS = dict.fromkeys(RULES, 3) | {"uncertain": 1, LEAST: 1, RANDOM: 10}
"""Selections with each rule; nothing is drawn where they go by uncertainty."""
COST = 0.1
"""scikit-learn's C of the logistic regression, on standardized features; it was not tuned."""
POOLS = ("as found", "clean")
MEASURES = {"knn": "kNN", "linear": "linear probe"}
PICTURE = RESULTS.parent.parent / "docs" / "images" / "curation-selection.png"

Results = dict[str, dict[str, dict[str, Any]]]


def choose(
    rule: str,
    count: int,
    x: torch.Tensor,
    typicality: torch.Tensor,
    uncertainty: torch.Tensor,
    seed: int,
) -> torch.Tensor:
    """Return indices of pictures with features x (n, D) in the order in which they are chosen."""
    if rule == RANDOM:
        return torch.randperm(len(x), generator=generator(seed, "random"))[:count]
    if rule == LEAST:
        return uncertainty.argsort(stable=True)[:count]
    return select(
        rule,  # type: ignore[arg-type]
        count,
        x,
        typicality=typicality,
        uncertainty=uncertainty,
        seed=seed,
    )


def judge(
    x: torch.Tensor, labels: torch.Tensor, test_x: torch.Tensor, truth: torch.Tensor
) -> dict[str, float]:
    """Return accuracies on test pictures by labeled ones; those with label −1 are left out."""
    x, labels = x[labels >= 0], labels[labels >= 0]
    return {
        "knn": knn_accuracy(x, labels, test_x, truth),
        "linear": fit(x, labels, COST, standardize=True).accuracy(test_x, truth),
    }


def pools(
    planted: Sequence[Planted], curation: Curation
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return the rows that random selections are from, and those that rules are from."""
    everything = torch.arange(len(planted))
    clean = torch.tensor([i for i, row in enumerate(planted) if row.kind == CLEAN])
    return {"as found": (everything, torch.tensor(curation.rows("keep"))), "clean": (clean, clean)}


def measure(folder: Path, test: Images, truth: torch.Tensor, seed: int) -> dict[str, Any]:
    """Return accuracies by pool, rule and number of labels, a list over selections."""
    planted = read_manifest(folder)
    curation = curations(folder, canvas(folder), seed, ["amcl"])["amcl"]
    labels = torch.tensor([row.label for row in planted])
    features = unit_features(curation.features())
    columns = [curation.tensor(name) for name in ("typicality", "uncertainty")]
    model = open_model(folder / "amcl")
    test_x = features_of(model.backbone, test, input_transform(model, None, test))
    test_x = unit_features(test_x.values)
    result: dict[str, Any] = {}
    for pool, (everything, kept) in pools(planted, curation).items():
        for rule, repeats in SEEDS.items():
            rows = everything if rule == RANDOM else kept
            values = [column[rows] for column in columns]
            by_count = result.setdefault(pool, {}).setdefault(rule, {})
            for count in COUNTS:
                found = []
                for repeat in range(repeats):
                    chosen = rows[choose(rule, count, features[rows], *values, repeat)]
                    lost = float((labels[chosen] < 0).double().mean())
                    accuracy = judge(features[chosen], labels[chosen], test_x, truth)
                    found.append({**accuracy, "lost": lost})
                by_count[str(count)] = found
            print(f"{folder.name}, {pool}, {rule}", flush=True)
    return result


def test_pictures(name: str, stl10: Path, side: int) -> tuple[Images, torch.Tensor]:
    """Return the test pictures of a set and their classes, kept as the planted ones are."""
    pictures = pictures_of(name, stl10, "test")
    labels = torch.from_numpy(pictures.labels).long()
    if name == "cifar10":
        pixels = torch.from_numpy(pictures.pixels).permute(0, 3, 1, 2).contiguous()
        return MemoryImages(pixels), labels
    return load_all_images(str(stl10 / "test"), image_size=32, canvas=side).images, labels


def page(results: Results) -> str:
    """Return the tables of all sets."""
    return "\n".join(_section(name, results[name]) for name in SETS if name in results)


def _section(name: str, by_seed: dict[str, dict[str, Any]]) -> str:
    runs = list(by_seed.values())
    tables = "\n\n".join(
        f"{title}, {pool}:\n\n{_table(runs, pool, measure)}"
        for pool in POOLS
        for measure, title in MEASURES.items()
    )
    lost = []
    for rule in SEEDS:
        cells = [spread(values(runs, "as found", rule, count, "lost")) for count in COUNTS]
        lost.append(f"| {rule} | {' | '.join(cells)} |")
    lines = "\n".join([_head(), *lost])
    return f"""## {TITLES[name]}

Networks: {len(runs)}. Accuracy on test images in percent by the number of labels, mean ± standard
deviation over networks and selections; in brackets the difference to random, in the mean.

{tables}

Labels lost on foreign pictures, in percent:

{lines}
"""


def _head() -> str:
    return f"| rule | {' | '.join(map(str, COUNTS))} |\n|---|---|---|---|"


def values(
    runs: Sequence[dict[str, Any]], pool: str, rule: str, count: int, measure: str
) -> list[float]:
    """Return a measure of all selections of all networks."""
    return [each[measure] for run in runs for each in run[pool][rule][str(count)]]


def _table(runs: Sequence[dict[str, Any]], pool: str, measure: str) -> str:
    lines = [_head()]
    base = {count: fmean(values(runs, pool, RANDOM, count, measure)) for count in COUNTS}
    for rule in (RANDOM, *(name for name in SEEDS if name != RANDOM)):
        cells = []
        for count in COUNTS:
            found = values(runs, pool, rule, count, measure)
            gain = "" if rule == RANDOM else f" ({100 * (fmean(found) - base[count]):+.1f})"
            cells.append(f"{spread(found)}{gain}")
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


def picture(results: Results) -> "Figure":
    """Return charts of the linear probe's difference to random by the number of labels."""
    sides = [(name, pool) for name in SETS if name in results for pool in POOLS]
    figure, axes, _ = panels(len(sides), 3.4, 2.8, columns=2)
    rules = [rule for rule in SEEDS if rule != RANDOM]
    for ax, (name, pool) in zip(axes, sides, strict=True):
        runs = list(results[name].values())
        draws = [values(runs, pool, RANDOM, count, "linear") for count in COUNTS]
        base = [fmean(each) for each in draws]
        band = [100 * stdev(each) for each in draws]
        ax.axhline(0, color=DARK, lw=1, label=RANDOM)
        label = "± standard deviation of random"
        ax.fill_between(
            range(len(COUNTS)), [-b for b in band], band, color=FAINT, alpha=0.4, lw=0, label=label
        )
        for rule, color in zip(rules, PALETTE, strict=False):
            means = [fmean(values(runs, pool, rule, count, "linear")) for count in COUNTS]
            gains = [100 * (mean - at) for mean, at in zip(means, base, strict=True)]
            ax.plot(range(len(COUNTS)), gains, "o-", color=color, ms=4, label=rule)
        ax.set_xticks(range(len(COUNTS)), [f"{count:,}" for count in COUNTS])
        ax.set_title(f"{TITLES[name].partition(',')[0]}, {pool}", fontsize=10)
        ax.set_xlabel("labels", fontsize=9)
        ax.set_ylabel("points over random", fontsize=9)
        bare(ax)
        ax.set_ylim(-6.5, 4)
    legend_below(figure)
    return figure


def record(results: Results) -> None:
    """Write the numbers, the tables and the picture."""
    note = "Repeat with `python benchmarks/curation_selection.py --stl10 …`."
    text = f"{page(results)}\n{conditions()}. {note}\n"
    write_results("curation_selection", "Accuracy after labeling", text, results)
    save_png(picture(results), PICTURE)


def main() -> None:
    """Measure the sets and seeds, and write the results; those that are not measured are kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stl10", type=Path, required=True, help="the folder of stl10_folder.py")
    parser.add_argument("--work", type=Path, default=Path("curation-proof"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    kept = RESULTS / "curation_selection.json"
    results: Results = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for seed in args.seeds:
        for name in args.sets:
            folder = args.work / f"{name}-{seed}"
            test, truth = test_pictures(name, args.stl10, canvas(folder))
            results.setdefault(name, {})[str(seed)] = measure(folder, test, truth, seed)
            record(results)


if __name__ == "__main__":
    main()
