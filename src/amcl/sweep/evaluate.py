"""Evaluation of runs that have ended: protocols, splits, and the names of metrics."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from amcl.checkpoints.load import open_model
from amcl.config import Config
from amcl.data import has_test_split
from amcl.evaluation import PROTOCOLS
from amcl.evaluation.build import EvaluationData, make_evaluation

Split = Literal["auto", "test", "validation"]
SPLITS: tuple[Split, ...] = Split.__args__  # type: ignore[attr-defined]


def splits_for(protocol: str, split: Split) -> tuple[str, ...]:
    """Return the splits that a result may be of, the preferred one first.

    Images without labels are all of the split "train". A protocol with images of its own has one
    split, "test".
    """
    if PROTOCOLS[protocol].own_images:
        return ("test",)
    splits: tuple[str, ...] = ("test", "validation") if split == "auto" else (split,)
    return splits if PROTOCOLS[protocol].needs_labels else (*splits, "train")


def metrics_of(metrics: Mapping[str, float], protocol: str, split: str) -> dict[str, float]:
    """Return the metrics of one protocol on one split.

    >>> metrics_of({"knn_validation": 0.4, "knn_top1_validation": 0.5}, "knn", "validation")
    {'top1': 0.5}
    """
    pattern = re.compile(rf"{re.escape(protocol)}_(.+)_{re.escape(split)}")
    matches = {name: pattern.fullmatch(name) for name in metrics}
    return {match[1]: metrics[name] for name, match in matches.items() if match is not None}


def check_split(config: Config, split: Split) -> None:
    """Raise an error, before anything is trained, if the data set does not have the split."""
    if split == "test" and not has_test_split(config.data.source):
        raise ValueError(f"{config.data.source} has no labeled test split: use --split validation.")


def evaluate_run(
    config: Config,
    run: Path,
    protocols: Sequence[str],
    split: Split,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, float]:
    """Evaluate a run and write the results into its folder.

    Args:
        config: Settings of the run.
        run: Its folder.
        protocols: Protocols to evaluate by.
        split: Images to evaluate on.
        settings: Settings of protocols by name; None for those of `amcl evaluate`.

    Returns:
        Metrics by names such as "linear_top1_test".
    """
    if not protocols:
        return {}
    evaluation = make_evaluation(
        open_model(run),
        EvaluationData(split=split, data_root=config.data.data_root, workers=config.data.workers),
        settings=settings,
        accelerator=config.hardware.accelerator,
        seed=config.run.seed,
    )
    results = [evaluation.run(protocol) for protocol in protocols]
    return {
        f"{result.protocol}_{name}_{result.split}": value
        for result in results
        for name, value in result.metrics.items()
    }
