"""How well the columns of a curation and simple scores tell planted pictures from clean ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from planted_pictures import CLEAN, COPIES, DAMAGED, FOREIGN, Planted, read_manifest
from simple_scores import (
    Neighbors,
    auroc,
    hashes,
    neighbors,
    pixel_copies,
    pixel_features,
    precision,
    sharpness,
    view_scores,
)

from amcl.checkpoints import open_model
from amcl.checkpoints.method import load_method
from amcl.curation import Curation, CurationSettings, curate
from amcl.curation.neighbors import nearest_images, unit_features
from amcl.data import load_all_images
from amcl.evaluation.build import input_transform
from amcl.methods import HeadMethod

Scores = dict[str, torch.Tensor]

ODD = (*DAMAGED, *FOREIGN)
WRONG = "misclassified"
KINDS = (*COPIES, *ODD, WRONG)
"""Kinds that are separated from clean pictures. Misclassified are clean ones of which kNN, by the
labels of the other clean pictures and the features of AMCL, names a wrong class; against those that
it names rightly."""
TRAINED = ("amcl", "simclr", "tau")
UNTRAINED = "untrained"
NETWORKS = (*TRAINED, UNTRAINED)
PAIRS = 4
_NEIGHBORS = 20
_FOLDS = 5


def curations(
    folder: Path, canvas: int, seed: int, names: Sequence[str] = NETWORKS
) -> dict[str, Curation]:
    """Curate the planted pictures with trained models, and with a network that is not trained."""
    settings = CurationSettings(pairs=PAIRS, seed=seed)
    made = {}
    for name in names:
        if name == UNTRAINED:
            network = {"width": 0.25, "stem": "standard", "image_size": 32}
            model = open_model("resnet10t", **network, seed=seed)
        else:
            model = open_model(folder / name)
        out = folder / "curations" / name
        data = str(folder / "pictures")
        made[name] = curate(model, data, out, settings, canvas=canvas, workers=0)
    return made


def measure(folder: Path, canvas: int, seed: int) -> dict[str, Any]:
    """Return AUROC and precision of every score for every kind, and what τ⁺ adds to others."""
    planted = read_manifest(folder)
    made = curations(folder, canvas, seed)
    if [row.name for row in planted] != made["amcl"]["path"]:
        raise ValueError(f"{folder} has other pictures than its manifest: remove it.")
    files = [folder / "pictures" / row.name for row in planted]
    near: dict[str, Neighbors] = {name: neighbors(x) for name, x in hashes(files).items()}
    near["pixels"] = neighbors(pixel_features(files))
    near |= {name: neighbors(curation.features()) for name, curation in made.items()}
    views = {name: _view_scores(folder, name, canvas, seed) for name in TRAINED}
    copies = copy_scores(made["amcl"], near, pixel_copies(files))
    odd = odd_scores(made, near, views, files)
    groups = groups_of(planted, made["amcl"].features())
    separated: dict[str, Any] = {}
    for kind, (positive, negative) in groups.items():
        scores = copies if kind in COPIES else odd
        separated[kind] = {name: _separation(x, positive, negative) for name, x in scores.items()}
    return {
        "counts": {kind: [int(rows.sum()) for rows in both] for kind, both in groups.items()},
        "separated": separated,
        "partners": {name: partners(planted, each.nearest) for name, each in near.items()},
        "alone": alone(made["amcl"].features(), groups),
        "flags": flags(planted, made["amcl"]),
        "added": added(odd, groups),
        "correlations": correlations(odd, groups["blurred"][1]),
    }


def copy_scores(ours: Curation, near: Mapping[str, Neighbors], exact: torch.Tensor) -> Scores:
    """Return scores that are to be high for copies."""
    nearest = {f"nearest cosine, {name}": each.cosine for name, each in near.items()}
    columns = ("uncertainty", "uncertainty_spread", "ambiguity", "nearest_cosine", "typicality")
    return {
        **{f"column {name}": ours.tensor(name) for name in columns},
        "same pixels": exact,
        **nearest,
    }


def odd_scores(
    made: Mapping[str, Curation],
    near: Mapping[str, Neighbors],
    views: Mapping[str, Scores],
    files: Sequence[Path],
) -> Scores:
    """Return scores that are to be high for damaged and foreign pictures."""
    ours = made["amcl"]
    scores = {
        "column uncertainty": ours.tensor("uncertainty"),
        "column uncertainty_spread": ours.tensor("uncertainty_spread"),
        "column ambiguity": ours.tensor("ambiguity"),
        "column nearest_cosine, low": -ours.tensor("nearest_cosine"),
        "column outlier_rank, first": -ours.tensor("outlier_rank"),
        "τ of the picture with itself, AMCL": views["amcl"]["tau plain"],
        "ambiguity, SimCLR": made["simclr"].tensor("ambiguity"),
        "outlier_rank, SimCLR": -made["simclr"].tensor("outlier_rank"),
        "outlier_rank, TaU": -made["tau"].tensor("outlier_rank"),
        "outlier_rank, untrained": -made["untrained"].tensor("outlier_rank"),
        "kNN distance, pixels": -near["pixels"].tenth,
        "kNN distance, SimCLR": -near["simclr"].tenth,
        "kNN distance, AMCL": -near["amcl"].tenth,
        "uncertainty, TaU": made["tau"].tensor("uncertainty"),
        "uncertainty, TaU, no views": views["tau"]["tau plain"],
        "blur (variance of the Laplacian, low)": -torch.tensor([sharpness(f) for f in files]),
        "file size, small": -ours.tensor("bytes"),
    }
    for name, title in (("amcl", "AMCL"), ("simclr", "SimCLR")):
        scores[f"loss, {title}"] = views[name]["loss"]
        scores[f"similarity of views, low, {title}"] = -views[name]["similarity"]
    return scores


def groups_of(
    planted: Sequence[Planted], features: torch.Tensor
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return masks (n,) of the pictures of each kind, and of those that it is separated from."""
    sources = {row.source for row in planted}
    kinds = np.array([row.kind for row in planted])
    clean = torch.tensor([row.kind == CLEAN and row.name not in sources for row in planted])
    groups = {
        kind: (torch.from_numpy(kinds == kind), clean) for kind in (*COPIES, *ODD) if kind in kinds
    }
    wrong = torch.zeros(len(planted), dtype=torch.bool)
    labels = torch.tensor([row.label for row in planted])
    wrong[clean] = misclassified(features[clean], labels[clean])
    groups[WRONG] = (wrong, clean & ~wrong)
    return groups


def misclassified(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return which pictures (n,) have another class than most of their neighbors."""
    cosines, index = nearest_images(unit_features(features), _NEIGHBORS, show_progress=False)
    votes = torch.zeros(len(labels), int(labels.max()) + 1)
    votes.scatter_add_(1, labels[index], (cosines / 0.1).exp())
    return votes.argmax(1) != labels


def partners(planted: Sequence[Planted], nearest: torch.Tensor) -> dict[str, float]:
    """Return the share of the copies of each kind whose nearest picture is the right one."""
    rows = {row.name: i for i, row in enumerate(planted)}
    shares = {}
    for kind in COPIES:
        right = [
            int(nearest[i]) == rows[row.source] for i, row in enumerate(planted) if row.kind == kind
        ]
        if right:
            shares[kind] = sum(right) / len(right)
    return shares


def alone(
    features: torch.Tensor, groups: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
) -> dict[str, dict[str, float]]:
    """Return how well low typicality tells a picture that is the only one of its kind.

    Those of one kind are not each other's neighbors then, as they are where many are planted.
    """
    x = unit_features(features)
    result = {}
    for kind in ODD:
        if kind not in groups:
            continue
        positive, negative = groups[kind]
        others = x[~positive]
        distances = torch.zeros(len(x))
        distances[positive] = -(x[positive] @ others.T).topk(10).values.mean(1)
        distances[~positive] = -nearest_images(others, 10, show_progress=False)[0].mean(1)
        result[kind] = _separation(distances, positive, negative)
    return result


def flags(planted: Sequence[Planted], ours: Curation) -> dict[str, dict[str, float]]:
    """Return the shares of each kind in the groups of their sources, and among the outliers.

    For clean pictures without a copy it is the share that any group has.
    """
    rows = {row.name: i for i, row in enumerate(planted)}
    sources = {row.source for row in planted}
    group = ours["duplicate_group"]
    outlier = ours["outlier"]
    result = {}
    for kind in (CLEAN, *COPIES, *ODD):
        members = [
            i
            for i, row in enumerate(planted)
            if row.kind == kind and not (kind == CLEAN and row.name in sources)
        ]
        if not members:
            continue
        grouped = [group[i] is not None for i in members]
        if kind in COPIES:
            grouped = [
                group[i] is not None and group[i] == group[rows[planted[i].source]] for i in members
            ]
        outliers = sum(bool(outlier[i]) for i in members)
        result[kind] = {
            "grouped": sum(grouped) / len(members),
            "outlier": outliers / len(members),
        }
    return result


def added(
    scores: Scores, groups: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
) -> dict[str, dict[str, float]]:
    """Return the AUROC of a logistic regression on scores of AMCL's features, with and without τ⁺.

    Scores are ranks; each fifth of the pictures is judged by a regression on the others.
    """
    features = ["column nearest_cosine, low", "column outlier_rank, first"]
    views = [*features, "column ambiguity", "similarity of views, low, AMCL"]
    tau = ["column uncertainty", "column uncertainty_spread"]
    sets = {
        "features": features,
        "features + τ⁺": [*features, *tau],
        "features, views": views,
        "features, views + τ⁺": [*views, *tau],
    }
    result: dict[str, dict[str, float]] = {}
    for kind, (positive, negative) in groups.items():
        if kind not in COPIES:
            result[kind] = {
                name: _regression(scores, names, positive, negative) for name, names in sets.items()
            }
    return result


def correlations(scores: Scores, rows: torch.Tensor) -> dict[str, float]:
    """Return Spearman's rank correlations of τ⁺ with the other scores, over clean pictures."""
    from scipy.stats import spearmanr

    values = {name: x[rows] for name, x in scores.items()}
    values = {name: x for name, x in values.items() if x.amax() > x.amin()}
    ours = values.pop("column uncertainty", None)
    if ours is None:
        return {}
    return {name: float(spearmanr(ours.numpy(), x.numpy()).statistic) for name, x in values.items()}


def _view_scores(folder: Path, name: str, canvas: int, seed: int) -> Scores:
    images = load_all_images(str(folder / "pictures"), image_size=32, canvas=canvas).images
    model = open_model(folder / name)
    method = load_method(folder / name)
    if not isinstance(method, HeadMethod) or model.config is None:
        raise ValueError(f"{folder / name} is no run of a method with heads.")
    views = input_transform(model, None, images).views(model.config.views)
    return view_scores(method, images, views, seed, PAIRS)


def _separation(
    scores: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
) -> dict[str, float]:
    rows = positive | negative
    chosen = scores[rows].nan_to_num(nan=float(scores[rows].nanmedian()))
    return {
        "auroc": auroc(chosen, positive[rows]),
        "precision": precision(chosen, positive[rows]),
    }


def _regression(
    scores: Scores, names: Sequence[str], positive: torch.Tensor, negative: torch.Tensor
) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = positive | negative
    columns = []
    for name in names:
        x = scores[name][rows]
        ranks = x.nan_to_num(nan=float(x.nanmedian())).argsort().argsort().double() / len(x)
        # Both a high and a low value may be odd.
        columns += [ranks - 0.5, (ranks - 0.5) ** 2]
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    model = LogisticRegression(max_iter=1000)
    x = torch.stack(columns, 1).numpy()
    truth = positive[rows]
    decided = cross_val_predict(model, x, truth.numpy(), cv=folds, method="decision_function")
    return auroc(torch.from_numpy(decided), truth)
