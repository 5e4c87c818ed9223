"""Analyses on any images and settings: their runs, and the files that they write."""

from collections.abc import Sequence
from pathlib import Path

from amcl.analysis import PairSettings
from amcl.config import Config
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.cases import AUROC, KNN, LINEAR, Metric
from amcl.experiments.experiment import Experiment
from amcl.experiments.runs import RunPool, check_labels
from amcl.settings import choose
from amcl.sweep.judge import Split
from amcl.sweep.workers import Tell

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
    """Measure the effect of a setting on runs like `base`.

    The same call resumes after an interruption.

    Args:
        name: Name of the analysis.
        base: Settings that all runs start from.
        out: Folder of the runs; the page, Markdown, CSV and PNG are in its folder `name`.
        values: Values to try instead of the analysis's own.
        metric: "knn" and "linear" need labels, "auroc" does not.
        seeds: Seeds of the runs.
        split: The split that protocols judge on.
        jobs: Number of runs at once.
        again: Whether to repeat runs that diverged or failed.
        command: The command to show on the page.
        tell: Takes a line for each run that ended.

    Returns:
        The path of the page.
    """
    choose("analysis", name, tuple(ANALYSES))
    choose("metric", metric, tuple(METRICS))
    analysis, folder = ANALYSES[name], Path(out)
    parts = analysis.parts(base, values, METRICS[metric])
    check_labels(base, parts, split, ", or use --metric auroc, which needs none")
    pool = RunPool(
        path=folder / "runs",
        base_of=lambda config: base,
        split=split,
        pairs=PairSettings(),
        data_root=base.data.data_root,
        hardware=base.hardware,
    )
    experiment = Experiment(
        title=f"{name}: {analysis.question}",
        subtitle=f"{base.method.name} on {base.data.name}",
        parts=parts,
        pool=pool,
        seeds=seeds,
        command=command or f"amcl.experiments.analyze({name!r}, …)",
    )
    return experiment.carry_out(folder / name, jobs=jobs, again=again, tell=tell)
