"""Specifications of tables: the runs and the metric that fill each of their cells."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from amcl.config import Config
from amcl.config.fields import value_from, with_values
from amcl.evaluation import PROTOCOLS
from amcl.recipes import as_published, with_amcl

Change = str | Callable[[Config, str], Config]

NONE = "–"
"""Value of a label for runs that are the same all along an axis: a dashed line."""
SIDE = "side"
"""Label of the form of a method: as published, or with AMCL."""
BASELINE = "baseline"
AMCL = "+ AMCL"
SCRATCH = "from scratch"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a run.

    Args:
        name: Name on the page.
        source: The protocol that measures it, "pairs" of views or the "course" of training.
        key: Its name in that source.
        share: Whether it is a share from 0 to 1, shown in percent.
        scratch: Whether the protocol starts from random weights in place of those of the run.
    """

    name: str
    source: str
    key: str
    share: bool = True
    scratch: bool = False

    @property
    def label(self) -> str:
        """The name with its unit."""
        return f"{self.name} (%)" if self.share else self.name

    @property
    def scale(self) -> float:
        """Factor from the number to the one that is shown."""
        return 100.0 if self.share else 1.0

    @property
    def protocol(self) -> str | None:
        """The protocol that measures it, if one does."""
        return self.source if self.source in PROTOCOLS else None


KNN = Metric(name="kNN accuracy", source="knn", key="top1")
LINEAR = Metric(name="linear probe", source="linear", key="top1")
FINETUNED = Metric(name="accuracy after fine-tuning", source="finetune", key="top1")
BOX_AP = Metric(name="box AP", source="detect", key="box_AP")
BOX_AP50 = Metric(name="box AP50", source="detect", key="box_AP50")
MASK_AP = Metric(name="mask AP", source="detect", key="mask_AP")
AUROC = Metric(name="AUROC of pairs", source="unlabeled", key="auroc", share=False)
LOSS = Metric(name="loss of the last epoch", source="course", key="loss", share=False)
FIRST_LOSS = Metric(name="loss of the first epoch", source="course", key="first_loss", share=False)


def few_labels(count: str) -> Metric:
    """Return the accuracy with this number of labels per class."""
    return Metric(name="accuracy with few labels", source="few-labels", key=f"n={count}")


def of_pairs(key: str, name: str) -> Metric:
    """Return a number of `amcl.analysis` on pairs of views."""
    return Metric(name=name, source="pairs", key=key, share=False)


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """A cell of a table.

    Args:
        labels: Position of the cell: a value for each label of the table.
        config: Settings of the runs that fill it.
        metric: The metric of these runs.
        paper: The number that the paper has there, in percent.
    """

    labels: Mapping[str, str]
    config: Config
    metric: Metric
    paper: float | None = None


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """Specification of a table and its picture.

    Args:
        name: Name of its files.
        title: Its heading.
        how_to_read: A sentence or two below the heading.
        cells: The cells.
        x: The label along the horizontal axis of the picture.
        columns: The label along the columns of the table; all others make rows. The default is
            `x`; with "" there is one column of numbers.
        panels: The label with a panel for each of its values.
        ordered: Whether the values along x have an order, and so a line through them a meaning.
        compared: The label whose first value all others are compared with: the gain.
        notes: Sentences below the table.
    """

    name: str
    title: str
    how_to_read: str
    cells: tuple[CellSpec, ...]
    x: str
    columns: str | None = None
    panels: str | None = None
    ordered: bool = True
    compared: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.columns is None:
            object.__setattr__(self, "columns", self.x)

    @property
    def series(self) -> str | None:
        """The label with a color for each of its values."""
        return SIDE if SIDE in self.cells[0].labels else None

    def labels(self, name: str | None) -> list[str]:
        """Return the values of a label, in their order; none without a name."""
        return list(dict.fromkeys(c.labels[name] for c in self.cells if name and name in c.labels))

    def with_paper(self, numbers: Mapping[tuple[str, ...], float]) -> "TableSpec":
        """Return the same with the paper's numbers, by the values of the labels in their order."""
        cells = [replace(c, paper=numbers.get(tuple(c.labels.values()))) for c in self.cells]
        return replace(self, cells=tuple(cells))

    def with_note(self, note: str) -> "TableSpec":
        """Return the same with one more note."""
        return replace(self, notes=(*self.notes, note))


def sides(base: Config) -> dict[str, Config]:
    """Return a method as published and with AMCL."""
    return {BASELINE: as_published(base), AMCL: with_amcl(base)}


def along(
    axis: str,
    values: Iterable[str],
    configs: Mapping[str, Config],
    metric: Metric | Callable[[str], Metric],
    change: Change,
) -> tuple[CellSpec, ...]:
    """Return a cell for each value along an axis and each side.

    Args:
        axis: The label of the axis.
        values: Values along it, as they are typed on the command line.
        configs: Settings by side.
        metric: The metric, or a function of the value.
        change: The setting that takes the values, or a function that applies one.
    """
    field = change if isinstance(change, str) else ""
    apply = change if callable(change) else lambda config, v: with_field(config, field, v)
    return tuple(
        CellSpec(
            labels={axis: value, SIDE: side},
            config=apply(config, value),
            metric=metric(value) if callable(metric) else metric,
        )
        for value in values
        for side, config in configs.items()
    )


def dashed(axis: str, configs: Mapping[str, Config], metric: Metric) -> tuple[CellSpec, ...]:
    """Return cells that are the same all along an axis."""
    return along(axis, [NONE], configs, metric, lambda config, _: config)


def with_field(config: Config, field: str, text: str) -> Config:
    """Return the configuration with a setting as it is typed."""
    return with_values(config, {field: value_from(config, field, text)})


def positive(name: str, text: str) -> float:
    """Return a number above 0 as it is typed."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a number above 0, got {text!r}.")
    return value
