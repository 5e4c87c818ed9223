"""Results of evaluations: a JSON file for each result, and a table for people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from amcl.environment import environment
from amcl.files import check_name, digest, write_text
from amcl.text_files import read_json, require, to_json

FOLDER = "evaluation"
"""Folder of the results in a run folder."""
CLASSIFIER = ".safetensors"
"""Ending of the file of a fine-tuned classifier, beside its result."""
PRECISIONS = ("box_A", "mask_A")
"""Beginnings of the names of average precisions and recalls, which are no shares of images."""
SHARES = ("top1", "top5", "n=", "supervised n=", "train_top1", "balanced", *PRECISIONS)
"""Beginnings of the names of metrics that are shown in percent."""
BETTER = {
    **dict.fromkeys(("alignment", "uniformity", "negative_similarity", "overlap"), "↓"),
    **dict.fromkeys(("effective_rank", "spread", "positive_similarity", "auroc"), "↑"),
}
"""Metric without labels → the direction that is better."""
_MANY_IMAGES = 1000  # test images from which accuracies are shown without their interval
_CHECKPOINTS = (".pt", ".pth", ".ckpt")  # endings of models that are checkpoints of a run


class _ClassFacts(TypedDict):
    top1: float | None
    images: int


class _Confused(TypedDict):
    true: str
    predicted: str
    images: int


class _Details(TypedDict):
    """Details that are shown; protocols add others, which are kept as they are."""

    notes: NotRequired[list[str]]
    std: NotRequired[dict[str, float | None]]
    interval: NotRequired[dict[str, tuple[float, float] | None]]
    lr: NotRequired[float]
    cost: NotRequired[float]
    hold_out_images: NotRequired[int | None]
    hold_out_top1: NotRequired[list[Any] | dict[str, Any] | None]
    folds: NotRequired[int]
    balanced_top1: NotRequired[float]
    per_class: NotRequired[dict[str, _ClassFacts]]
    confused: NotRequired[list[_Confused]]
    confusion: NotRequired[list[list[int]]]
    box_classes: NotRequired[dict[str, float | None]]
    mask_classes: NotRequired[dict[str, float | None]]
    pictures: NotRequired[list[str]]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of one protocol, on one model and one split of one data set."""

    protocol: str
    """Name of the protocol."""
    data: str
    """Name of the data set."""
    split: str
    """Name of the split: test, validation, or train without labels."""
    metrics: dict[str, float]
    """Numbers by name; accuracies are shares from 0 to 1."""
    model: dict[str, Any]
    """Name of the model, and the SHA-256 of its weights."""
    settings: dict[str, Any]
    """All settings of the protocol."""
    seed: int
    """Seed of everything random."""
    images: dict[str, Any] = field(default_factory=dict)
    """Numbers of images by split, and their SHA-256."""
    details: dict[str, Any] = field(default_factory=dict)
    """Choices behind the numbers, accuracies by class, notes."""
    shown: list[str] = field(default_factory=list)
    """Names of the settings that are shown beside the numbers."""
    environment: dict[str, Any] = field(default_factory=environment)
    """Versions and hardware."""
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """Time of the result, UTC."""

    @property
    def key(self) -> str:
        """Digest that is the same for the same protocol, settings, seed, images and weights."""
        parts = (self.protocol, self.data, self.split, self.settings, self.seed, self.images)
        model = (self.model.get("sha256"), self.checkpoint)
        return digest([json.dumps([*parts, *model], sort_keys=True).encode()])[:8]

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint that was evaluated; "" for the final model of a run."""
        name = Path(str(self.model.get("name", ""))).name
        return name if name.endswith(_CHECKPOINTS) else ""

    @property
    def num_test_images(self) -> int | None:
        """Number of images that were evaluated on."""
        count = self.images.get(self.split)
        return count if isinstance(count, int) else None

    def path(self, run: Path) -> Path:
        """Return the file of this result in a run folder."""
        name = f"{self.protocol}-{_file_name(self.data)}-{self.split}-{self.key}.json"
        return run / FOLDER / name

    def classifier(self, run: Path) -> Path | None:
        """Return the file of the classifier that this is the result of, if there is one."""
        path = self.path(run).with_suffix(CLASSIFIER)
        return path if path.is_file() else None

    def write(self, run: Path) -> Path:
        """Write this to the run folder; only a result of the same key is replaced."""
        write_text(self.path(run), to_json(asdict(self)) + "\n")
        return self.path(run)


def read_results(run: str | Path) -> list[Result]:
    """Return all results in a run folder, sorted by time.

    Args:
        run: The run folder.

    Returns:
        The results; an empty list where nothing was evaluated.

    Raises:
        ValueError: If a file of results is damaged.

    Example:
        >>> read_results("no-such-folder")
        []
    """
    results = [read_result(path) for path in sorted((Path(run) / FOLDER).glob("*.json"))]
    return sorted(results, key=lambda result: (result.time, result.protocol))


def results_table(results: Sequence[Result], name: str) -> Table:
    """Return a table for the terminal: protocol, numbers, settings.

    Args:
        results: Results of one model.
        name: Name of the model.
    """
    data = dict.fromkeys(f"{result.data}, {result.split}" for result in results)
    title = f"{name} on {'; '.join(data)}"
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("protocol", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("how", overflow="fold")
    for result in results:
        numbers = [f"{metric} {format_metric(result, metric)}" for metric in result.metrics]
        # No markup: names of files and classes may have brackets.
        table.add_row(*map(Text, (result.protocol, "\n".join(numbers), describe(result))))
        table.add_section()
    return table


def format_metric(result: Result, name: str) -> str:
    """Return a number of a result as text: shares in percent, with the std of several draws.

    Shares of fewer than 1,000 images come with their 95 % interval; measures without labels with
    an arrow to the direction that is better.
    """
    value = result.metrics[name]
    if not name.startswith(SHARES):
        return f"{value:.4g} {BETTER.get(name, '')}".rstrip()
    std = result.details.get("std", {}).get(name)
    text = f"{value:.1%}" if std is None else f"{value:.1%} ± {std:.1%}"
    interval = result.details.get("interval", {}).get(name)
    if interval is None or not _has_few_images(result):
        return text
    return f"{text} [{interval[0]:.1%}, {interval[1]:.1%}]"


def describe(result: Result) -> str:
    """Return lines on a result: its most important settings, numbers of images, notes."""
    settings = []
    for name in result.shown:
        value = result.settings.get(name)
        if value is True:
            settings.append(name)
        elif isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            settings += [f"{name} {', '.join(value)}"] if value else []
        elif value not in (None, False):
            settings.append(f"{name} {value}")
    settings += [_choice(result.details, name) for name in ("lr", "cost") if name in result.details]
    counts = ", ".join(f"{n:,} {what}" for what, n in result.images.items() if what != "sha256")
    lines = [", ".join(settings), counts]
    if any(name in BETTER for name in result.metrics):
        lines.append("↑ higher is better, ↓ lower is better")
    if _has_few_images(result) and "interval" in result.details:
        lines.append("[…]: 95 % interval, by the number of images")
    lines += [f"note: {note}" for note in result.details.get("notes", ())]
    return "\n".join(line for line in lines if line)


def _has_few_images(result: Result) -> bool:
    return result.num_test_images is not None and result.num_test_images < _MANY_IMAGES


def _choice(details: Mapping[str, Any], name: str) -> str:
    """Return the value that was chosen from a grid, and by which images."""
    value = f"{name} {details[name]:g}"
    held_out = details.get("hold_out_images")
    if not held_out:
        return value
    folds = details.get("folds", 1)
    images = f"by {folds}-fold cross-validation"
    if folds == 1:
        images = f"on {held_out:,} held-out training images"
    return f"{value} (best of {len(details.get('hold_out_top1', ()))} values, {images})"


def read_result(path: Path) -> Result:
    """Return the result in a file; an error if the file is damaged.

    Args:
        path: The file.
    """
    try:
        values = read_json(path)
        known = {f.name: f for f in fields(Result)}
        if foreign := sorted(values.keys() - known.keys()):
            raise ValueError(f"{path} is no result of an evaluation: it has {foreign[0]!r}.")
        for name, f in known.items():
            if name in values:
                require(values[name], f.type, f"{name} in {path}")
            elif f.default_factory is MISSING:
                raise ValueError(f"{path} is damaged: it has no {name}.")
        require(values.get("details", {}), _Details, f"details in {path}")
        counts = {n: v for n, v in values.get("images", {}).items() if n != "sha256"}
        require(counts, dict[str, int], f"images in {path}")
        for name in ("protocol", "split"):
            check_name(values[name], f"{name} in {path}")
        result = Result(**values)
        _check_classes(result, path)
    except ValueError as error:
        raise ValueError(f"{error} Remove it and run `amcl evaluate` again.") from None
    return result


def _check_classes(result: Result, path: Path) -> None:
    """Raise an error if the accuracies by class do not belong together."""
    details = result.details
    if "per_class" not in details:
        return
    if missing := [name for name in ("balanced_top1", "confused") if name not in details]:
        raise ValueError(f"details in {path} are damaged: they have no {missing[0]}.")
    if "top1" not in result.metrics:
        raise ValueError(f"metrics in {path} are damaged: they have no top1.")
    count = len(details["per_class"])
    rows = details.get("confusion", [[0] * count] * count)
    if [len(row) for row in rows] != [count] * count:
        raise ValueError(f"details in {path} are damaged: confusion is not of {count} classes.")
    for name, facts in details["per_class"].items():
        if facts["images"] and facts["top1"] is None:
            raise ValueError(f"details in {path} are damaged: {name} has no accuracy.")


def _file_name(data: str) -> str:
    """Return the name of a data set with nothing but letters, digits, - and _."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(data).name) or "images"
