"""What an evaluation found: a JSON file for each result, and a table for people."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from amcl.environment import environment
from amcl.files import digest, write_text

_KINDS: dict[Any, type] = {
    str: str,
    int: int,
    dict[str, float]: dict,
    dict[str, Any]: dict,
}
_TOLD = {  # settings that are shown with the numbers
    "knn": ("k", "tau", "metric"),
    "linear": ("epochs", "augment"),
    "logistic": ("standardize",),
    "few-labels": ("draws", "cost"),
    "finetune": ("epochs", "layer_decay", "scratch"),
    "unlabeled": ("views",),
}
_CHECKPOINTS = (".pt", ".pth", ".ckpt")  # a model of such a name is a state on the way
FOLDER = "evaluation"  # in a run folder
CLASSIFIER = ".safetensors"  # the ending of a fine-tuned classifier, beside its result
SHARES = ("top1", "top5", "n=", "supervised n=", "train_top1", "balanced")  # shown in per cent
SURE = 1000  # images judged on from which accuracies are shown without their interval
BETTER = {  # which direction of a measure without labels is better
    **dict.fromkeys(("alignment", "uniformity", "negative_similarity", "overlap"), "↓"),
    **dict.fromkeys(("effective_rank", "spread", "positive_similarity", "auroc"), "↑"),
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """One protocol on one model and one split of one data set.

    - `model`: its name and the SHA-256 of its weights; `data`: its name, and that of its images;
    - `settings`: all that the protocol was told, with its `seed`;
    - `metrics`: the numbers, shares from 0 to 1; `details`: what they were chosen from, and notes.
    """

    protocol: str
    data: str
    split: str
    metrics: dict[str, float]
    model: dict[str, Any]
    settings: dict[str, Any]
    seed: int
    images: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=environment)
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def key(self) -> str:
        """The same for the same protocol, settings, seed, images and weights."""
        same = (self.protocol, self.data, self.split, self.settings, self.seed, self.images)
        model = (self.model.get("sha256"), self.checkpoint)
        return digest([json.dumps([*same, *model], sort_keys=True).encode()])[:8]

    @property
    def checkpoint(self) -> str:
        """The name of the checkpoint that was judged; "" for the model of a run."""
        name = Path(str(self.model.get("name", ""))).name
        return name if name.endswith(_CHECKPOINTS) else ""

    def path(self, run: Path) -> Path:
        """Where this lies in a run folder."""
        name = f"{self.protocol}-{_plain(self.data)}-{self.split}-{self.key}.json"
        return run / FOLDER / name

    def classifier(self, run: Path) -> Path | None:
        """Where the classifier lies that this is the result of, if there is one."""
        path = self.path(run).with_suffix(CLASSIFIER)
        return path if path.is_file() else None

    @property
    def judged(self) -> int | None:
        """How many images it was judged on."""
        count = self.images.get(self.split)
        return count if isinstance(count, int) else None

    def write(self, run: Path) -> Path:
        """Put this into the run folder; only the same measurement is replaced."""
        text = json.dumps(asdict(self), indent=2, allow_nan=False, ensure_ascii=False)
        write_text(self.path(run), text + "\n")
        return self.path(run)


def read_results(run: str | Path) -> list[Result]:
    """All results in a run folder, by the time they were found."""
    found = [_read(path) for path in sorted((Path(run) / FOLDER).glob("*.json"))]
    return sorted(found, key=lambda result: (result.time, result.protocol))


def table(results: Sequence[Result], name: str) -> Table:
    """Results of one model and data set for people: protocol, numbers, and what they hang on."""
    on = dict.fromkeys(f"{result.data}, {result.split}" for result in results)
    title = f"{name} on {'; '.join(on)}"
    out = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    out.add_column("protocol", no_wrap=True)
    out.add_column("result", no_wrap=True)
    out.add_column("how", overflow="fold")
    for result in results:
        numbers = "\n".join(f"{n} {spelled(result, n)}" for n in result.metrics)
        out.add_row(result.protocol, numbers, how(result))
        out.add_section()
    return out


def spelled(result: Result, name: str) -> str:
    """A number as people read it: shares in per cent, with the std of several draws.

    Shares of fewer than 1,000 images come with their 95 % interval; measures without labels with
    an arrow to what is better.
    """
    value, std = result.metrics[name], result.details.get("std", {}).get(name)
    if not name.startswith(SHARES):
        better = BETTER.get(name) if result.protocol == "unlabeled" else None
        return f"{value:.4g} {better}" if better else f"{value:.4g}"
    text = f"{value:.1%}" if std is None else f"{value:.1%} ± {std:.1%}"
    interval = result.details.get("interval", {}).get(name)
    if interval is None or result.judged is None or result.judged >= SURE:
        return text
    return f"{text} [{interval[0]:.1%}, {interval[1]:.1%}]"


def how(result: Result) -> str:
    """Lines: the settings that matter most and what was chosen; how many images; notes."""
    told = []
    for name in _TOLD.get(result.protocol, ()):
        value = result.settings.get(name)
        if value is True:
            told.append(name)
        elif value not in (None, False):
            told.append(f"{name} {value}")
    told += [_chosen(result.details, name) for name in ("lr", "cost") if name in result.details]
    counts = ", ".join(f"{n:,} {what}" for what, n in result.images.items() if what != "sha256")
    notes = [f"note: {note}" for note in result.details.get("notes", ())]
    lines = [", ".join(told), counts]
    if any(name in BETTER for name in result.metrics):
        lines.append("↑ higher is better, ↓ lower is better")
    if result.judged is not None and result.judged < SURE and "interval" in result.details:
        lines.append("[…]: 95 % interval, by the number of images")
    return "\n".join(line for line in (*lines, *notes) if line)


def _chosen(details: Mapping[str, Any], name: str) -> str:
    held, tried = details.get("hold_out_images"), details.get("hold_out_top1", ())
    chosen, folds = f"{name} {details[name]:g}", details.get("folds", 1)
    if not held:
        return chosen
    where = f"by {folds}-fold cross-validation"
    if folds == 1:
        where = f"on {held:,} held-out training images"
    return f"{chosen} (best of {len(tried)} values, {where})"


def _read(path: Path) -> Result:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        known = {f.name for f in fields(Result)}
        if not isinstance(values, dict) or not set(values) <= known:
            raise ValueError("it is no result of an evaluation")
        result = Result(**values)
        for f in fields(Result):
            if f.type in _KINDS and type(getattr(result, f.name)) is not _KINDS[f.type]:
                raise ValueError(f"its {f.name} is {getattr(result, f.name)!r}")
        for name, value in result.metrics.items():
            if type(value) not in (int, float) or not math.isfinite(value):
                raise ValueError(f"its {name} is no number: {value!r}")
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{path} is damaged ({error}): remove it and run `amcl evaluate` again."
        ) from error
    return result


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(name).name) or "images"
