"""Analyses on any images and settings: their runs, and the files that they write."""

from collections.abc import Sequence
from pathlib import Path

from amcl.analysis import PairSettings
from amcl.config import Config
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.experiment import run_experiment
from amcl.experiments.runs import SharedRuns, check_labels
from amcl.experiments.specs import AUROC, KNN, LINEAR, Metric
from amcl.settings import choose
from amcl.sweep.evaluate import Split
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
        values: Values to try instead of those of the analysis.
        metric: "knn" and "linear" need labels, "auroc" does not.
        seeds: Seeds of the runs.
        split: The split that protocols evaluate on.
        jobs: Number of runs at once.
        again: Whether to repeat runs that diverged or failed.
        command: The command to show on the page.
        tell: Function that prints a line for each run that ended.

    Returns:
        The path of the page.

    Example:
        >>> from amcl.recipes import recipe
        >>> base = recipe("builtin-simclr")
        >>> analyze("heads", base, "analyses/first", values=["1", "3"])  # doctest: +SKIP
        PosixPath('analyses/first/heads/index.html')
    """
    choose("analysis", name, tuple(ANALYSES))
    choose("metric", metric, tuple(METRICS))
    analysis = ANALYSES[name]
    folder = Path(out)
    specs = analysis.specs(base, values, METRICS[metric])
    check_labels(base, specs, split, ", or use --metric auroc, which needs none")
    runs = SharedRuns(
        path=folder / "runs",
        base_of=lambda config: base,
        split=split,
        pairs=PairSettings(),
        data_root=base.data.data_root,
        hardware=base.hardware,
    )
    return run_experiment(
        specs,
        runs,
        seeds,
        folder / name,
        title=f"{name}: {analysis.question}",
        subtitle=f"{base.method.name} on {base.data.name}",
        command=command or f"amcl.experiments.analyze({name!r}, …)",
        jobs=jobs,
        again=again,
        tell=tell,
    )
