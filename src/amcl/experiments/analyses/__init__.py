"""Analyses: what one setting does to what is learned, each as a table with a picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amcl.experiments.analyses import heads, temperatures, training, views
from amcl.experiments.cases import KNN, Metric, Part
from amcl.training import Config

Make = Callable[[Config, Sequence[str], Metric], list[Part]]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A question, and the runs that answer it."""

    name: str
    question: str
    values: tuple[str, ...]
    """What is tried, unless something else is asked for."""
    few: tuple[str, ...]
    """The same for a look."""
    make: Make
    own_metric: bool = False
    """It is told by numbers of its own, whatever metric is asked for."""

    def parts(self, base: Config, values: Sequence[str] = (), metric: Metric = KNN) -> list[Part]:
        """The tables that answer it for runs like `base`."""
        return self.make(base, tuple(values) or self.values, metric)


ANALYSES = {
    a.name: a
    for a in (
        Analysis(
            name="overlap",
            question="how does it bear crops that share little?",
            values=("0.3", "0.5", "0.7", "0.9"),
            few=("0.3", "0.9"),
            make=views.overlap,
        ),
        Analysis(
            name="color",
            question="how does it bear strong color distortion?",
            values=("0.25", "0.5", "0.75", "1"),
            few=("0.25", "1"),
            make=views.color,
        ),
        Analysis(
            name="augmentations",
            question="does AMCL gain more, the more kinds of augmentation there are?",
            values=("a", "ab", "abc", "abcd", "abcde"),
            few=("a", "abcde"),
            make=views.augmentations,
        ),
        Analysis(
            name="heads",
            question="how many heads?",
            values=("1", "2", "3", "4", "5", "6"),
            few=("1", "3"),
            make=heads.heads,
        ),
        Analysis(
            name="negatives",
            question="all negatives, or the κ hardest?",
            values=("5%", "10%", "15%", "25%", "50%"),
            few=("10%",),
            make=heads.negatives,
        ),
        Analysis(
            name="temperatures",
            question="which pairs should have a temperature of their own, and from where?",
            values=(
                *("constant", "adaptive-positive", "adaptive-negative", "first-head"),
                *("uncertainty", "scheduled", "adaptive"),
            ),
            few=("constant", "uncertainty", "scheduled", "adaptive"),
            make=temperatures.temperatures,
        ),
        Analysis(
            name="tau",
            question="which constant temperature would match the adaptive ones?",
            values=("0.05", "0.1", "0.2", "0.3", "0.5"),
            few=("0.1", "0.5"),
            make=temperatures.tau,
        ),
        Analysis(
            name="wider",
            question="would one wider head do as well as several?",
            values=heads.WIDTHS,
            few=("1", "3"),
            make=heads.wider,
        ),
        Analysis(
            name="labels",
            question="what do labels add?",
            values=("10", "20", "50", "100", "200", "500"),
            few=("2", "4"),
            make=training.labels,
            own_metric=True,
        ),
        Analysis(
            name="backbones",
            question="does it hold for other backbones and longer training?",
            values=("own",),
            few=("own",),
            make=training.backbones,
        ),
        Analysis(
            name="sensitivity",
            question="how much hangs on η, ι and β?",
            values=("0.2", "0.5", "1", "2", "5"),
            few=("0.5", "2"),
            make=temperatures.sensitivity,
        ),
    )
}
