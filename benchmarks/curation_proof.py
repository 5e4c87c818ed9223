"""What the scores of `amcl curate` are worth, on pictures among which others are planted.

    python benchmarks/stl10_folder.py stl10_binary/train_X.bin stl10_binary/train_y.bin data/stl10
    python benchmarks/curation_proof.py --stl10 data/stl10 --seeds 0 1 2

For each set and seed, copies, damaged and foreign pictures are planted among clean ones, and three
models are trained on all of them without labels: SimCLR with a constant temperature, SimCLR + AMCL,
and SimCLR with TaU's temperature. `amcl curate` runs with each, and every column, and scores that
need no model or other networks, are measured by how well they tell each kind from clean pictures.

Whatever is there already in --work is kept: the same command resumes. It writes
benchmarks/results/curation_proof.md and .json, where sets and seeds that are not measured are kept.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from curation_measures import ODD, WRONG, measure
from PIL import Image
from planted_pictures import COPIES, Pictures, plant, read_manifest
from results_files import RESULTS, conditions, write_results

from amcl.data.cifar10 import read
from amcl.data.named import data_root
from amcl.drawing import DARK, figure_of, save_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS = ("cifar10", "stl10")
TITLES = {"cifar10": "CIFAR-10, 32 pixels", "stl10": "STL-10, 96 pixels"}
CLEAN_PICTURES = 8000
PICTURE = RESULTS.parent.parent / "docs" / "images" / "curation-scores.png"
EPOCHS = {"cifar10": 30, "stl10": 40}
SIMCLR = "--method simclr --plain --projector-last-norm plain"
MODELS = {
    "amcl": f"{SIMCLR} --heads 3 --temperature adaptive --tau 0.1",
    "simclr": f"{SIMCLR} --tau 0.1",
    "tau": f"{SIMCLR} --temperature uncertainty --tau 0.05",
}
"""Options of the models; τ and TaU's scale are those chosen in docs/tuning.md."""
SHOWN = {
    "column outlier_rank, first": "outlier_rank",
    "column nearest_cosine, low": "nearest_cosine, low",
    "column ambiguity": "ambiguity",
    "column uncertainty": "uncertainty (τ⁺)",
    "column uncertainty_spread": "uncertainty_spread",
    "similarity of views, low, AMCL": "similarity of views, low",
    "uncertainty, TaU": "TaU's uncertainty",
    "loss, AMCL": "loss",
    "kNN distance, pixels": "kNN distance of pixels",
    "outlier_rank, untrained": "outlier_rank, untrained network",
    "blur (variance of the Laplacian, low)": "blur",
    "file size, small": "small file",
}
"""Scores in the picture, with their labels."""
TRAINING = (
    "--image-size 32 --labels none --probe none --backbone resnet10t --stem standard --width 0.25 "
    "--batch-size 256 --optimizer adamw --lr 0.005 --weight-decay 1e-4 --warmup-epochs 1 "
    "--workers 0 --threads 1"
)


def pictures_of(name: str, stl10: Path, split: str = "train") -> Pictures:
    """Return the pictures of a set; of CIFAR-10's training pictures those of all classes."""
    if name == "stl10":
        return _folder(stl10 / split)
    root = data_root(None)
    tensors = read(root)
    if tensors is None:
        sys.exit(f"there is no CIFAR-10 in {root}: run `amcl data cifar10`.")
    pixels = tensors[f"{split}_pixels"].permute(0, 2, 3, 1).contiguous().numpy()
    return Pictures(pixels, tensors[f"{split}_labels"].numpy())


def some(pictures: Pictures, count: int, seed: int) -> Pictures:
    """Return some of the pictures, drawn by seed."""
    rows = np.random.default_rng(seed).permutation(len(pictures))[:count]
    return Pictures(pictures.pixels[rows], pictures.labels[rows])


def prepare(folder: Path, name: str, stl10: Path, seed: int) -> None:
    """Plant pictures in a set, unless that is done."""
    if not (folder / "manifest.json").is_file():
        other = next(each for each in SETS if each != name)
        base = some(pictures_of(name, stl10), CLEAN_PICTURES, seed)
        plant(folder, base, pictures_of(other, stl10, "test"), seed)
    print(f"{folder}: {len(read_manifest(folder))} pictures", flush=True)


def train(folder: Path, model: str, epochs: int, seed: int) -> Path:
    """Train a model, or resume its run; return the run folder."""
    run = folder / model
    command = [sys.executable, "-m", "amcl", "pretrain"]
    if (run / "checkpoints").is_dir() or (run / "config.toml").is_file():
        command += ["--resume", str(run)]
    else:
        data = ["--data", str(folder / "pictures"), "--canvas", str(canvas(folder))]
        options = f"{MODELS[model]} {TRAINING} --epochs {epochs} --seed {seed}".split()
        command += [*data, *options, "--out", str(run)]
    with (folder / f"{model}.log").open("a", encoding="utf-8") as log:
        if subprocess.run(command, stdout=log, stderr=log, check=False).returncode:
            sys.exit(f"training failed: see {log.name}")
    return run


def canvas(folder: Path) -> int:
    """Return the side that pictures are kept at: their own, at most 48 pixels."""
    first = next((folder / "pictures").glob("*.png"))
    with Image.open(first) as picture:
        return min(48, picture.width)


def _folder(folder: Path) -> Pictures:
    if not folder.is_dir():
        sys.exit(f"there is no {folder}: benchmarks/stl10_folder.py makes it.")
    classes = sorted(path.name for path in folder.iterdir())
    files = [(path, i) for i, c in enumerate(classes) for path in sorted((folder / c).iterdir())]
    pixels = np.stack([_pixels(path) for path, _ in files])
    return Pictures(pixels, np.array([label for _, label in files]))


def _pixels(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


Results = dict[str, dict[str, dict[str, Any]]]


def page(results: Results) -> str:
    """Return the tables of all sets."""
    return "\n".join(_section(name, results[name]) for name in SETS if name in results)


def _section(name: str, by_seed: dict[str, dict[str, Any]]) -> str:
    runs = list(by_seed.values())
    counts = runs[0]["counts"]
    numbers = ", ".join(f"{kind} {counts[kind][0]}" for kind in counts)
    odd = (*ODD, WRONG)
    return f"""## {TITLES[name]}

Seeds: {len(runs)}, each with other pictures, networks and views; mean ± standard deviation.
{counts["exact"][1]} clean pictures without copies; of each kind: {numbers} (first seed).

Copies: AUROC in percent against clean pictures without copies, higher scores first.

{_separation_table(runs, COPIES, "auroc")}

Copies: precision at k in percent, k being the number of copies of the kind.

{_separation_table(runs, COPIES, "precision")}

Copies whose nearest picture is the one that they are a copy of, in percent.

{_table("by", COPIES, _named(runs, "partners", COPIES))}

Damaged, foreign and misclassified pictures: AUROC in percent; below 50 the score tells them by
low values.

{_separation_table(runs, odd, "auroc")}

The same: precision at k in percent.

{_separation_table(runs, odd, "precision")}

The same where each is the only one of its kind: AUROC and precision at k of low typicality in the
features of AMCL, without neighbors of the same kind.

{_table("", odd[:-1], _alone(runs, odd[:-1]))}

What `amcl curate` does by itself, with SimCLR + AMCL: percent of each kind in a group of copies
(copies: in that of the picture that they are a copy of), and among the outliers.

{_flag_table(runs)}

AUROC in percent of a logistic regression on columns of AMCL, without and with τ⁺ and its spread.
"features": nearest cosine and typicality; "views": ambiguity and similarity of views, too.

{_added_table(runs)}
"""


def spread(values: Sequence[float]) -> str:
    """Return mean ± standard deviation of shares in percent.

    >>> spread([0.5, 0.6])
    '55.0 ± 7.1'
    """
    mean = f"{100 * fmean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * stdev(values):.1f}"


def _table(label: str, columns: Sequence[str], rows: dict[str, list[str]]) -> str:
    lines = [f"| {label} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(row)} |" for name, row in rows.items()])


def _separation_table(runs: Sequence[dict[str, Any]], kinds: Sequence[str], measure: str) -> str:
    names = runs[0]["separated"][kinds[0]]
    rows = {
        name: [spread([run["separated"][kind][name][measure] for run in runs]) for kind in kinds]
        for name in names
    }
    return _table("score", kinds, rows)


def _named(
    runs: Sequence[dict[str, Any]], part: str, columns: Sequence[str]
) -> dict[str, list[str]]:
    """Return rows of a part of the results that has names, then columns."""
    return {
        name: [spread([run[part][name][column] for run in runs]) for column in columns]
        for name in runs[0][part]
    }


def _alone(runs: Sequence[dict[str, Any]], kinds: Sequence[str]) -> dict[str, list[str]]:
    return {
        title: [spread([run["alone"][kind][name] for run in runs]) for kind in kinds]
        for name, title in (("auroc", "AUROC"), ("precision", "precision at k"))
    }


def _flag_table(runs: Sequence[dict[str, Any]]) -> str:
    return _table("kind", ("grouped", "outlier"), _named(runs, "flags", ("grouped", "outlier")))


def _added_table(runs: Sequence[dict[str, Any]]) -> str:
    sets = tuple(runs[0]["added"][ODD[0]])
    return _table("kind", sets, _named(runs, "added", sets))


def picture(results: Results) -> "Figure":
    """Return charts of the AUROC of some scores for each kind of odd picture, a panel for a set."""
    kinds = (*ODD, WRONG)
    names = [name for name in SETS if name in results]
    figure = figure_of(1.6 + 3.7 * len(names), 4.4)
    axes = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for ax, name in zip(axes, names, strict=True):
        runs = list(results[name].values())
        separated = [run["separated"] for run in runs]
        values = [
            [100 * fmean(by_kind[kind][score]["auroc"] for by_kind in separated) for kind in kinds]
            for score in SHOWN
        ]
        ax.imshow(values, cmap="RdBu", vmin=0, vmax=100, aspect="auto")
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                color = "white" if abs(value - 50) > 38 else DARK
                ax.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=8, color=color)
        ax.set_xticks(range(len(kinds)), kinds, rotation=35, ha="right", fontsize=8)
        ax.set_yticks(range(len(SHOWN)), list(SHOWN.values()), fontsize=8)
        ax.tick_params(length=0)
        ax.set_title(TITLES[name].partition(",")[0], fontsize=10)
        ax.spines[:].set_visible(False)
    return figure


def record(results: Results) -> None:
    """Write the numbers, the tables and the picture."""
    note = f"{conditions()}. Repeat with `python benchmarks/curation_proof.py --stl10 …`."
    title = "What the scores of amcl curate are worth"
    write_results("curation_proof", title, f"{page(results)}\n{note}\n", results)
    save_png(picture(results), PICTURE)


def main() -> None:
    """Plant, train, measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stl10", type=Path, required=True, help="the folder of stl10_folder.py")
    parser.add_argument("--work", type=Path, default=Path("curation-proof"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    kept = RESULTS / "curation_proof.json"
    results: Results = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for seed in args.seeds:
        for name in args.sets:
            folder = args.work / f"{name}-{seed}"
            prepare(folder, name, args.stl10, seed)
            for model in MODELS:
                train(folder, model, EPOCHS[name], seed)
                print(f"{folder}: {model} is trained", flush=True)
            results.setdefault(name, {})[str(seed)] = measure(folder, canvas(folder), seed)
            record(results)


if __name__ == "__main__":
    main()
