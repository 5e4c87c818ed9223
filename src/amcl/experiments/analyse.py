"""Analyses on any images and settings: their runs, and what they leave behind."""

from collections.abc import Sequence
from pathlib import Path

from amcl.analysis import PairSettings
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.cases import AUROC, KNN, LINEAR, Metric
from amcl.experiments.pool import Pool
from amcl.experiments.product import Product, topic_of
from amcl.experiments.tables import Filled, csv_text
from amcl.report import require_packages
from amcl.settings import choose
from amcl.sweep.judge import Split
from amcl.sweep.workers import Tell
from amcl.training import Config, Interrupted, RunError

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
    pool = Pool(
        path=folder / "runs", base_of=lambda config: base, split=split, pairs=PairSettings()
    )
    try:
        findings = pool.carry_out(parts, seeds, jobs=jobs, again=again, tell=tell)
    except Interrupted as stopped:
        again_with = f" Go on with: {command}" if command else " The same call goes on."
        raise Interrupted(
            f"stopped, everything is saved.{again_with}", stopped.exit_code - 128
        ) from stopped
    filled = [Filled(p, tuple(pool.number(c, seeds, findings) for c in p.cases)) for p in parts]
    if all(number.mean is None for each in filled for number in each.numbers):
        raise RunError(f"not one run came to its end: {filled[0].bad()[0]}.")
    product = Product(
        title=f"{name}: {analysis.question}",
        subtitle=f"{base.method.name} on {base.data.data}, judged on {split} images.",
        topics=[topic_of(each) for each in filled],
        csv=csv_text(filled),
        command=command or f"amcl.experiments.analyse({name!r}, …)",
        facts=[("seeds", str(len(seeds))), ("runs", str(len(pool.points(parts, seeds))))],
        config=base.to_toml(),
    )
    return product.write(folder / name)
