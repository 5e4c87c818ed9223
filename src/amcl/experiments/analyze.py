"""Analyses on any images and settings: their runs, and what they leave behind."""

from collections.abc import Sequence
from pathlib import Path

from amcl.analysis import PairSettings
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.cases import AUROC, KNN, LINEAR, Metric
from amcl.experiments.conduct import check_labels, conduct
from amcl.experiments.pool import Pool
from amcl.experiments.product import Product, check_free, topic_of
from amcl.experiments.tables import Filled, csv_text
from amcl.settings import choose
from amcl.sweep.judge import Split
from amcl.sweep.workers import Tell
from amcl.training import Config

METRICS: dict[str, Metric] = {"knn": KNN, "linear": LINEAR, "auroc": AUROC}


def analyze(
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
    analysis, folder = ANALYSES[name], Path(out)
    parts = analysis.parts(base, values, METRICS[metric])
    check_labels(base, parts, split, ", or use --metric auroc, which needs none")
    check_free(folder / name)
    pool = Pool(
        path=folder / "runs",
        base_of=lambda config: base,
        split=split,
        pairs=PairSettings(),
        data_root=base.data.data_root,
        hardware=base.hardware,
    )
    command = command or f"amcl.experiments.analyze({name!r}, …)"
    filled, judged = conduct(pool, parts, seeds, jobs=jobs, again=again, go_on=command, tell=tell)
    product = Product(
        title=f"{name}: {analysis.question}",
        subtitle=f"{base.method.name} on {base.data.name}" + (judged and f", judged on {judged}"),
        topics=[topic_of(each) for each in filled],
        csv=csv_text(filled),
        command=command,
        facts=_facts(base, filled, len(seeds), len(pool.points(parts, seeds))),
        config=base.to_toml(),
    )
    return product.write(folder / name)


def _facts(base: Config, filled: Sequence[Filled], seeds: int, runs: int) -> list[tuple[str, str]]:
    """How much the page rests on."""
    images = [number.images for each in filled for number in each.numbers if number.images]
    judged = [("images judged on", f"{images[0]:,}")] if images else []
    return [*judged, ("epochs", str(base.run.epochs)), ("seeds", str(seeds)), ("runs", str(runs))]
