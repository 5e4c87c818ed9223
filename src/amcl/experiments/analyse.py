"""Analyses on any images and settings: their runs, and what they leave behind."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from amcl.analysis import PairSettings
from amcl.data import has_test_split
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.cases import AUROC, KNN, LINEAR, Metric, Part
from amcl.experiments.conduct import conduct
from amcl.experiments.pool import Pool
from amcl.experiments.product import Product, topic_of
from amcl.experiments.tables import csv_text
from amcl.report import require_packages
from amcl.settings import choose
from amcl.sweep.judge import Split
from amcl.sweep.workers import Tell
from amcl.training import Config
from amcl.training.pretrain import load_data

METRICS: dict[str, Metric] = {"knn": KNN, "linear": LINEAR, "auroc": AUROC}


def analyse(
    name: str,
    base: Config,
    out: str | Path,
    *,
    values: Sequence[str] = (),
    metric: str = "knn",
    seeds: Sequence[int] = (0,),
    split: Split = "validation",
    jobs: int = 1,
    again: bool = False,
    command: str = "",
    tell: Tell = print,
) -> Path:
    """Find what a setting does to runs like `base`; a page, Markdown, CSV and PNG in `out`/`name`.

    `values`: what to try instead of the analysis's own; `metric`: knn and linear need labels, auroc
    does not. The same call goes on after it was stopped. Returns the page.
    """
    choose("analysis", name, tuple(ANALYSES))
    choose("metric", metric, tuple(METRICS))
    require_packages()
    analysis, folder = ANALYSES[name], Path(out)
    parts = analysis.parts(base, values, METRICS[metric])
    check_labels(base, parts, split)
    pool = Pool(
        path=folder / "runs",
        base_of=lambda config: base,
        split=split,
        pairs=PairSettings(),
        data_root=base.data.data_root,
        hardware=base.hardware,
    )
    command = command or f"amcl.experiments.analyse({name!r}, …)"
    filled = conduct(pool, parts, seeds, jobs=jobs, again=again, go_on=command, tell=tell)
    product = Product(
        title=f"{name}: {analysis.question}",
        subtitle=f"{base.method.name} on {base.data.data}, judged on {split} images.",
        topics=[topic_of(each) for each in filled],
        csv=csv_text(filled),
        command=command,
        facts=[("seeds", str(len(seeds))), ("runs", str(len(pool.points(parts, seeds))))],
        config=base.to_toml(),
    )
    return product.write(folder / name)


def check_labels(base: Config, parts: Sequence[Part], split: Split) -> None:
    """An error, before anything is trained, where tables need labels and there are none."""
    protocols = {case.metric.protocol for part in parts for case in part.cases}
    if not protocols - {None, "unlabelled"} or (split == "test" and has_test_split(base.data.data)):
        return
    settings = replace(base.data, memory=0.0, probe="validation")  # nothing is decoded for this
    data = load_data(replace(base, data=settings))
    if data.probe is None:
        raise ValueError(
            f"{base.data.data} has no labels in use, and accuracies need them: sort the images "
            "into a folder for each class, or use --metric auroc, which needs none."
        )
