"""Which fields set the best trials apart."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from amcl.drawing import BLUE, bare
from amcl.results.intervals import accuracy_difference, excludes_zero
from amcl.search.plots.axis import Axis
from amcl.search.plots.drawing import name_of, scored, study_figure, title, words
from amcl.search.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna import Study
    from optuna.distributions import BaseDistribution

RANKED_FROM = 8
"""Complete trials below which a ranking of fields would be noise."""


def importance(
    records: Sequence[Record], axes: Mapping[str, Axis], images: int | None = None
) -> "Figure":
    """A bar for each field by PED-ANOVA, or the reason why there is none."""
    reason = why_not_ranked(records, axes, images)
    found = {} if reason else importances(records, axes)
    if not reason and not found:
        reason = "The best trials lie where the others do:\nno field sets them apart."
    figure = study_figure(1.3 + 0.38 * max(len(found), 3))
    ax = figure.subplots()
    title(figure, "Which settings set the best trials apart")
    if reason:
        ax.set_axis_off()
        words(ax, reason)
        return figure
    bars = ax.barh([name_of(name) for name in found], list(found.values()), color=BLUE, height=0.6)
    ax.bar_label(bars, [f"{share:.2f}" for share in found.values()], padding=3, fontsize=9)
    ax.invert_yaxis()
    ax.set_xlim(0, max(found.values()) * 1.1)
    count = len(scored(records))
    ax.set_xlabel(f"importance, share of the sum (PED-ANOVA, {count} complete trials)")
    bare(ax, inner=True)
    return figure


def why_not_ranked(
    records: Sequence[Record], axes: Mapping[str, Axis], images: int | None = None
) -> str:
    """Why the fields cannot be ranked, in words; "" if they can.

    >>> why_not_ranked([], {"eta": Axis(0, 2), "iota": Axis(0, 2)})
    'A ranking of fields needs 8 complete trials or more;\\nthere are 0.'
    """
    values = [r.value or 0.0 for r in scored(records)]
    if len(values) < RANKED_FROM:
        count = "is 1" if len(values) == 1 else f"are {len(values)}"
        return f"A ranking of fields needs {RANKED_FROM} complete trials or more;\nthere {count}."
    if len(axes) < 2:
        return "A ranking needs two fields or more."
    if len(set(values)) == 1:
        return "All complete trials have the same value:\nno field makes a difference."
    if images and not excludes_zero(accuracy_difference(max(values), min(values), images)):
        return (
            f"The complete trials cannot be told apart on {images:,} validation images:\n"
            "a ranking of fields would be noise."
        )
    return ""


def importances(records: Sequence[Record], axes: Mapping[str, Axis]) -> dict[str, float]:
    """How much each field sets the best trials apart; adds up to 1, the greatest first.

    PED-ANOVA compares where the best quarter of the complete trials lies with where all lie; at
    least five are taken, at most half. It knows of fields that only some trials have; a field
    that fewer than two have is left out. Empty if no field sets any trial apart.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    done = scored(records)
    judged = [name for name in axes if sum(name in r.point for r in done) >= 2]
    best = min(0.5, max(0.25, 5 / len(done)))
    with _quiet():
        study = _study(done, {name: axes[name] for name in judged})
        evaluator = PedAnovaImportanceEvaluator(target_quantile=best)
        # Not normalized: of zeros, that would make equal shares.
        found = get_param_importances(study, evaluator=evaluator, params=judged, normalize=False)
    total = sum(found.values())
    order = sorted(found, key=lambda name: (-found[name], judged.index(name)))
    return {name: found[name] / total for name in order} if total else {}


def _study(done: Sequence[Record], axes: Mapping[str, Axis]) -> "Study":
    """These trials as the library has them."""
    import optuna

    kinds: dict[str, BaseDistribution] = {}
    points: dict[int, dict[str, Any]] = {r.number: {} for r in done}
    for name, axis in axes.items():
        having = [r for r in done if name in r.point]
        kinds[name], values = _as_known(axis, [r.point[name] for r in having])
        for record, value in zip(having, values, strict=True):
            points[record.number][name] = value
    study = optuna.create_study(direction="maximize")
    for record in done:
        point = points[record.number]
        within = {name: kinds[name] for name in point}
        study.add_trial(optuna.create_trial(params=point, distributions=within, value=record.value))
    return study


def _as_known(axis: Axis, values: Sequence[Any]) -> tuple["BaseDistribution", Sequence[Any]]:
    """A field as the library has it, wide enough for all values; of choices, their places."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.choices is not None:
        choices, places = axis.places(values)
        return CategoricalDistribution(range(len(choices))), places
    low, high = axis.span(values)
    if all(float(v).is_integer() for v in (*values, low, high)):
        return IntDistribution(int(low), int(high), log=axis.log), values
    return FloatDistribution(low, high, log=axis.log), values


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's news of each study, and its warnings of what is checked here."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", message="Some regimes for parameter")
            warnings.filterwarnings("ignore", message="Target and region quantiles select")
            yield
    finally:
        optuna.logging.set_verbosity(before)
