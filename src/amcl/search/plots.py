"""Pictures of a study, drawn by Optuna and saved in the style of the project."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amcl.drawing import FAINT, bare, plain, save_png
from amcl.results.intervals import accuracy_difference, excludes_zero
from amcl.search.folder import Definition
from amcl.search.objective import LABELS, is_share
from amcl.sweep.engine import Trials
from amcl.sweep.storage import without_experimental_warnings

if TYPE_CHECKING:  # loaded only where something is drawn
    import optuna
    from matplotlib.figure import Figure

RANKED_FROM = 8
"""Number of complete trials below which a ranking of fields would be noise."""
_WIDTH = 8  # inches
_HEIGHT = 4.5
_LEGEND = 12  # entries of a legend that there is room for
_PAIR = ("heads", "top_k")  # the two fields that the paper draws against each other


class NotDrawn(Exception):
    """The picture cannot be drawn; the message has the reason."""


def save_plots(
    study: "optuna.Study", definition: Definition, images: int | None, folder: Path
) -> tuple[list[Path], dict[str, str]]:
    """Write the pictures of a study as PNG files.

    Args:
        study: The study.
        definition: Its definition.
        images: Number of images that the objective is an accuracy on; None if it is no accuracy.
        folder: Folder for the files.

    Returns:
        The files, and the reasons why others are not drawn, by the names of their files.
    """
    paths = []
    reasons = {}
    with _quiet():
        ended = _ended_trials(study, definition)
        for name, (title, draw) in _pictures(definition, images).items():
            path = folder / f"{name}.png"
            try:
                figure = _figure(draw, ended)
            except NotDrawn as reason:
                reasons[path.name] = str(reason)
                path.unlink(missing_ok=True)
                continue
            _style(figure, title, images)
            save_png(figure, path)
            paths.append(path)
    return paths, reasons


def _pictures(
    definition: Definition, images: int | None
) -> dict[str, tuple[str, Callable[["optuna.Study"], Any]]]:
    """Return the title of each picture, and the function that draws it, by its name."""
    from optuna.visualization import matplotlib as draw

    label = LABELS[definition.objective] + (" (%)" if is_share(definition.objective) else "")

    def curves(study: "optuna.Study") -> Any:
        ax = draw.plot_intermediate_values(study)
        ax.set(xlabel="epoch", ylabel=label)
        return ax

    def importance(study: "optuna.Study") -> Any:
        evaluator = _check_ranked(study, definition, images)
        return draw.plot_param_importances(study, evaluator=evaluator, target_name=label)

    def contour(study: "optuna.Study") -> Any:
        trials = [trial for trial in _complete(study) if {*_PAIR} <= trial.params.keys()]
        if constant := [name for name in _PAIR if not _varies(trials, name)]:
            raise NotDrawn(f"it needs complete trials of two values of {constant[0]}")
        return draw.plot_contour(study, params=[*_PAIR], target_name=label)

    def slices(study: "optuna.Study") -> Any:
        names = [name for name in definition.space if _varies(_complete(study), name)]
        if not names:
            raise NotDrawn("it needs complete trials of two values of a field")
        return draw.plot_slice(study, params=names, target_name=label)

    pictures = {
        "history": (
            f"{label} of each trial",
            lambda study: draw.plot_optimization_history(study, target_name=label),
        ),
        "curves": (f"{label} at each probe", curves),
        "importance": ("Settings that set the best trials apart", importance),
        "sensitivity": (f"{label} by setting", slices),
    }
    if {*_PAIR} <= definition.space.keys():
        pictures["heads_and_top_k"] = (f"{label} by heads and hardest negatives", contour)
    return pictures


def _figure(draw: Callable[["optuna.Study"], Any], study: "optuna.Study") -> "Figure":
    """Return the figure of one function of Optuna, outside of pyplot's list."""
    import matplotlib.pyplot as plt

    if not _complete(study):
        raise NotDrawn("no trial is complete")
    # Each function sets a style of its own, which must not outlast it.
    with plt.rc_context({"figure.constrained_layout.use": True}):
        axes = draw(study)
        figure: Figure = (axes.flat[0] if hasattr(axes, "flat") else axes).figure
        plt.close(figure)
    return figure


def _style(figure: "Figure", title: str, images: int | None) -> None:
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    wide = max(1.0, len(panels) / 3)
    figure.set_size_inches(_WIDTH * wide, _HEIGHT)
    figure.set_facecolor("white")
    for ax in panels:
        ax.set_facecolor("white")
        ax.grid(visible=True, color=FAINT, linewidth=0.4)
        for side in ("left", "center"):
            ax.set_title("", loc=side)
        if (legend := ax.get_legend()) is not None:
            legend.set_frame_on(False)
            legend.set_visible(len(legend.get_texts()) <= _LEGEND)
            legend.set_in_layout(legend.get_visible())
        bare(ax)
    if images is not None:
        title += f"\n{images:,} validation images: one image is {100 / images:.2g} points"
    figure.suptitle(plain(title, 160), fontsize=11)


def _ended_trials(study: "optuna.Study", definition: Definition) -> "optuna.Study":
    """Return a study in memory of the trials that have ended, in order; shares in percent."""
    import optuna

    copy = optuna.create_study(direction="maximize")
    trials = Trials(study)
    scale = 100 if is_share(definition.objective) else 1
    for name in sorted(trials.records()):
        trial = trials.ended(name)
        if trial is not None:
            copy.add_trial(
                optuna.create_trial(
                    state=trial.state,
                    value=None if trial.value is None else scale * trial.value,
                    params=trial.params,
                    distributions=trial.distributions,
                    intermediate_values={
                        e: scale * v for e, v in trial.intermediate_values.items()
                    },
                )
            )
    return copy


def _complete(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    import optuna

    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))


def _varies(trials: "list[optuna.trial.FrozenTrial]", name: str) -> bool:
    """Return True if trials differ in a field."""
    return len({trial.params[name] for trial in trials if name in trial.params}) > 1


def _check_ranked(
    study: "optuna.Study", definition: Definition, images: int | None
) -> "optuna.importance.BaseImportanceEvaluator":
    """Return the evaluator that ranks fields; raise an error where a ranking would be noise.

    PED-ANOVA compares the best quarter of the complete trials with all of them; at least five are
    taken, at most half. It allows for fields that only some trials have.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    values = [trial.value or 0.0 for trial in _complete(study)]
    if len(values) < RANKED_FROM:
        raise NotDrawn(
            f"a ranking needs {RANKED_FROM} complete trials, and there are {len(values)}"
        )
    if len(definition.space) < 2:
        raise NotDrawn("a ranking needs two fields")
    low = min(values) / 100
    high = max(values) / 100
    if low == high or (images and not excludes_zero(accuracy_difference(high, low, images))):
        raise NotDrawn("the complete trials cannot be told apart: a ranking would be noise")
    evaluator = PedAnovaImportanceEvaluator(target_quantile=min(0.5, max(0.25, 5 / len(values))))
    if not any(get_param_importances(study, evaluator=evaluator, normalize=False).values()):
        raise NotDrawn("the best trials lie where the others do: no field sets them apart")
    return evaluator


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of Optuna on experimental features, and on conditions checked here."""
    with without_experimental_warnings(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some regimes for parameter")
        warnings.filterwarnings("ignore", message="Target and region quantiles select")
        yield
