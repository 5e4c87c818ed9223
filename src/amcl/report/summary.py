"""The paragraph on top of a page: in words, what was learned and what to do next."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from amcl.checkpoints.evaluations import Result
from amcl.report.runs import Run
from amcl.results.formatting import percent
from amcl.results.read import newest
from amcl.training.watch import COLLAPSED

_TREND = 1 / 3
"""Share of a run, its last, in which the trend of the accuracy is looked at."""
_RISING = 0.01
"""Rise of the accuracy in that part from which a longer run is advised."""
_ONE_TEMPERATURE = 0.01
"""Spread of τ, as a share of its mean, below which all pairs have about the same."""
_AT_BOUND = 0.5
"""Share of pairs at a bound from which τ hardly adapts."""
_NAMES = {"knn": "k nearest neighbors", "linear": "a linear classifier"}


def summary(runs: Sequence[Run]) -> str:
    """Return the paragraph on one run, or the comparison of several."""
    if len(runs) > 1:
        return _comparison(runs)
    (run,) = runs
    if _has_collapsed(run):
        sentences = [_collapse(run)]
    else:
        sentences = [_accuracy(run), _separation(run), _trend(run), _temperatures(run)]
    return " ".join(filter(None, [*sentences, _next(run)]))


def _has_collapsed(run: Run) -> bool:
    probes = run.of("probe")
    return bool(probes) and probes[-1].get("spread", 1.0) < COLLAPSED


def _collapse(run: Run) -> str:
    spread = run.of("probe")[-1]["spread"]
    return (
        f"The features have collapsed: to the backbone all images look about the same (spread "
        f"{spread:.3f}), so they are of no use. Train again with a lower learning rate (`--lr`), a "
        "longer warm-up (`--warmup-epochs`), or batch norm on the projections "
        "(`--projector-last-norm plain`)."
    )


def _accuracy(run: Run) -> str:
    """Return the accuracy of the newest evaluation, or that of the last probe."""
    measured = _measured(run)
    if measured is None:
        return ""
    what, value = measured
    return f"With the learned features, {what} {percent(value)}{_guessing(run)}."


def _measured(run: Run) -> tuple[str, float] | None:
    """Return the accuracy that says the most, with the words before it."""
    results = [result for result in newest(run.results) if not result.checkpoint]
    for protocol in ("linear", "knn"):
        for result in results:
            if result.protocol == protocol and "top1" in result.metrics:
                return _words(protocol, result.split), result.metrics["top1"]
    probes = run.of("probe")
    for split in ("test", "validation"):
        if probes and f"knn_{split}" in probes[-1]:
            return _words("knn", split), probes[-1][f"knn_{split}"]
    return None


def _words(protocol: str, split: str) -> str:
    verb = "classify" if protocol == "knn" else "classifies"
    return f"{_NAMES[protocol]} {verb} the {split} images with an accuracy of"


def _guessing(run: Run) -> str:
    """Return the accuracy of naming the most frequent class, where labels are known."""
    if run.sample is None or run.sample.labels is None:
        return ""
    most = run.sample.labels.bincount().max().item() / len(run.sample)
    return f", where always naming the most frequent class would have about {percent(most)}"


def _separation(run: Run) -> str:
    separation = run.separations.get("backbone")
    if separation is None:
        return ""
    return (
        f"In {percent(separation.auroc)} of cases the backbone takes two views of one image for "
        "more alike than views of two images; chance is 50%."
    )


def _trend(run: Run) -> str:
    """Return whether the accuracy still rose at the end."""
    if not run.ended:
        return ""
    points = [
        (row["epoch"], row[name])
        for row in run.of("probe")
        for name in ("knn_test", "knn_validation")
        if name in row
    ]
    before = [value for epoch, value in points if epoch <= (1 - _TREND) * run.epochs]
    if not before:
        return ""
    rise = points[-1][1] - before[-1]
    if rise >= _RISING:
        longer = shlex.quote(str(run.path))
        return (
            f"The accuracy still rose by {100 * rise:.1f} points in the last third of training, so "
            f"a longer run may learn more: `amcl pretrain --resume {longer} --epochs "
            f"{2 * run.config.run.epochs}`."
        )
    return "The accuracy hardly rose in the last third of training."


def _temperatures(run: Run) -> str:
    """Return whether temperatures tell pairs apart."""
    if run.temperatures is None or not run.config.method.adapts:
        return ""
    rows = run.temperatures.of("positive")
    for side, move in (("lower", "lower"), ("upper", "raise")):
        share = max(getattr(row, f"at_{side}") or 0.0 for row in rows)
        if share > _AT_BOUND:
            return (
                f"{percent(share)} of the temperatures of positive pairs lie at the {side} bound "
                f"and hardly adapt: {move} the temperature they vary around (`--tau`)."
            )
    if max(row.std / row.mean for row in rows) < _ONE_TEMPERATURE:
        return (
            "All positive pairs have about the same temperature, so adaptive temperatures gave "
            "nothing here: batch norm on the projections (`--projector-last-norm plain`) or a "
            "longer run may help."
        )
    least = min(row.quantiles[1] for row in rows)
    most = max(row.quantiles[5] for row in rows)
    return (
        f"Temperatures of positive pairs lie between {least:.2g} and {most:.2g}: the pairs that "
        "the method is least sure of have the highest, and Pairs shows them."
    )


def _next(run: Run) -> str:
    path = shlex.quote(str(run.path))
    if not run.ended:
        return f"Next, finish the training: `amcl pretrain --resume {path}`."
    if run.results:
        return (
            f"Next, use the backbone: `amcl export {path}` writes it for other programs, "
            f"`amcl embed {path}` computes features, and `amcl curate {path}` looks for copies "
            "among your images."
        )
    if run.sample is not None and run.sample.labels is None:
        return (
            f"Next, look for copies and odd images: `amcl curate {path}`; or compute features: "
            f"`amcl embed {path}`."
        )
    return f"Next, evaluate the backbone on test images: `amcl evaluate {path}`."


def _comparison(runs: Sequence[Run]) -> str:
    """Return which run is ahead, by results that can be compared, and what that is worth."""
    measured = _comparable(runs)
    if measured is None:
        return (
            "No accuracy was measured on the same images in every run. To compare them, evaluate "
            "each with `amcl evaluate RUN --data FOLDER` on the same labeled images."
        )
    what, values = measured
    order = sorted(values, key=lambda name: -values[name])
    first, last = order[0], order[-1]
    listed = ", ".join(f"{name} {percent(values[name])}" for name in order)
    gap = 100 * (values[first] - values[last])
    collapsed = [run.name for run in runs if _has_collapsed(run)]
    warning = f" The features of {', '.join(collapsed)} have collapsed." if collapsed else ""
    return (
        f"By accuracy of {what}: {listed}. {first} is {gap:.1f} points ahead of {last}; single "
        "runs that differ in their seed alone often differ by a point. Before you rely on a small "
        f"difference, repeat the runs with several seeds: `amcl sweep --grid seed=0,1,2`.{warning}"
    )


def _comparable(runs: Sequence[Run]) -> tuple[str, dict[str, float]] | None:
    """Return an accuracy that all runs have on the same images, by the names of the runs."""
    for protocol in ("linear", "knn"):
        results = {run.name: _result(run, protocol) for run in runs}
        known = {name: result for name, result in results.items() if result is not None}
        images = {(r.data, r.split, str(r.images), str(r.settings)) for r in known.values()}
        if len(known) == len(runs) and len(images) == 1:
            split = next(iter(known.values())).split
            values = {name: result.metrics["top1"] for name, result in known.items()}
            return f"{_NAMES[protocol]} on {split} images", values
    data = {str(replace(run.config.data, memory=0.0, workers=0)) for run in runs}
    for split in ("test", "validation"):
        name = f"knn_{split}"
        last = {run.name: run.of("probe")[-1].get(name) for run in runs if run.of("probe")}
        values = {run: value for run, value in last.items() if value is not None}
        if len(values) == len(runs) and len(data) == 1:
            return f"{_NAMES['knn']} on {split} images", values
    return None


def _result(run: Run, protocol: str) -> Result | None:
    """Return the newest result of a protocol on the final weights of a run."""
    results = [
        result
        for result in newest(run.results)
        if result.protocol == protocol and not result.checkpoint and "top1" in result.metrics
    ]
    return results[-1] if results else None
