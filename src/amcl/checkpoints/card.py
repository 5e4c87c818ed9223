"""Model cards: the network, its training, its scores, and the code that loads it."""

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from amcl.backbones import Backbone
from amcl.checkpoints.evaluations import Result, describe, format_metric, read_results
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.checkpoints.published import is_published
from amcl.config import Config
from amcl.metrics.features import fingerprint

CITATION = """@inproceedings{wang2024adaptive,
  title = {Adaptive Multi-head Contrastive Learning},
  author = {Wang, Lei and Koniusz, Piotr and Gedeon, Tom and Zheng, Liang},
  booktitle = {Computer Vision – ECCV 2024},
  year = {2024}
}"""


def model_card(
    model: LoadedModel,
    *,
    weights: str = "backbone.safetensors",
    load: str | None = None,
    license: str | None = None,
    sections: Sequence[str] = (),
) -> str:
    """Return the card in Markdown, with the front matter that the Hugging Face hub reads.

    Scores are those of exactly these weights in the `evaluation` folder of the run.

    Args:
        model: The model, as `open_model` returns it.
        weights: Name of the file of the weights, beside the card.
        load: Python code that loads the file with amcl; None for `amcl.load`.
        license: Name of the license of the weights on the hub; None leaves a line to fill in.
        sections: Sections in Markdown, which stand behind the scores.

    Example:
        >>> from amcl.checkpoints import open_model
        >>> card = model_card(open_model("resnet18", width=0.25, image_size=32))
        >>> card.splitlines()[1]
        'library_name: amcl'
    """
    load = load or f"import amcl\n\nbackbone = amcl.load({json.dumps(weights)})"
    parts = [
        _front_matter(model, license),
        _about(model),
        *([] if model.config is None else [_training(model, model.config)]),
        _input(model),
        *_scores(scores_of(model)),
        *sections,
        f"## How to load it\n\nWith timm alone:\n\n{_python(model.backbone.code(weights))}\n\n"
        f"With amcl:\n\n{_python(load)}",
        *([] if model.config is None else [f"## Citation\n\n```bibtex\n{CITATION}\n```"]),
    ]
    return "\n\n".join(parts) + "\n"


def scores_of(model: LoadedModel) -> list[Result]:
    """Return the results of exactly these weights, sorted."""
    if model.folder is None:
        return []
    results = read_results(model.folder)
    sha256 = fingerprint(model.backbone) if results else None
    results = [result for result in results if result.model.get("sha256") == sha256]
    return sorted(results, key=lambda r: (r.data, r.split, r.protocol, r.seed, r.time))


def _front_matter(model: LoadedModel, license: str | None) -> str:
    tags = ["timm", model.backbone.settings.name]
    if model.config is None or not model.config.method.needs_labels:
        tags.insert(0, "self-supervised-learning")
    if model.config is not None:
        tags.append(model.config.method.name)
        if model.config.method.has_negatives:
            tags.append("contrastive-learning")
    return "\n".join(
        [
            "---",
            "library_name: amcl",
            "pipeline_tag: image-feature-extraction",
            "tags:",
            *(f"- {json.dumps(tag)}" for tag in tags),
            f"license: {json.dumps(license)}"
            if license
            else "# license: the license of these weights is yours to choose",
            "---",
        ]
    )


def _about(model: LoadedModel) -> str:
    backbone = model.backbone
    network = f"{backbone.settings.name}{_times(backbone.settings.width)}"
    count = sum(p.numel() for p in backbone.parameters())
    features = (
        f"It turns images of {backbone.image_size}×{backbone.image_size} pixels{_of(backbone)} "
        f"into {backbone.dim} features; {count:,} parameters."
    )
    if model.config is None:
        notes = "\n".join(f"- {_cell(note)}" for note in model.notes)
        return f"# {network}\n\nA backbone. {features}\n\n{notes}".rstrip()
    method = model.config.method.label
    images = "images" if model.images is None else f"{model.images:,} images"
    data = _cell(model.config.data.name)
    use = "with labels" if model.config.method.needs_labels else "without labels"
    return (
        f"# {network}, pre-trained with {method}\n\n"
        f"A backbone, pre-trained {use} on {images} of {data}. {features}"
    )


def _last_part(source: str) -> str:
    """Return the name of a data set or file; of a path, its last part."""
    return Path(source).name or source


def _training(model: LoadedModel, config: Config) -> str:
    method = config.method
    optimizer = config.optimizer
    run = config.run
    rows: list[tuple[str, Any]] = [
        ("method", method.label),
        *method.facts(),
        *_start(config),
        ("views", config.views.operations),
        ("data", config.data.name),
        ("images", "not known" if model.images is None else f"{model.images:,}"),
        ("epochs", _epochs(model, run.epochs)),
        ("batch size", run.batch_size),
        ("optimizer", f"{optimizer.name}, {optimizer.schedule} schedule"),
        ("learning rate", f"{optimizer.peak_rate(run.batch_size):g}"),
        ("weight decay", f"{optimizer.weight_decay:g}"),
        ("seed", run.seed),
    ]
    return f"## Training\n\n{_table(('setting', 'value'), rows)}"


def _start(config: Config) -> list[tuple[str, Any]]:
    """Return the weights that training started from, if they were not random."""
    first = None if config.run.init else config.method.first_stage(config)
    if first is not None:
        masked = ", ".join(f"{value} {name}" for name, value in first.method.facts())
        name = first.method.label
        return [("starts from", f"{name}, {first.run.epochs} epochs, {masked}")]
    if config.run.init is not None:
        init = config.run.init
        return [("starts from", _cell(init if is_published(init) else _last_part(init)))]
    return []


def _epochs(model: LoadedModel, epochs: int) -> str:
    if model.epoch is None or model.epoch == epochs:
        return str(epochs)
    return f"{model.epoch:g} of {epochs}"


def _input(model: LoadedModel) -> str:
    size = model.backbone.image_size
    channels = model.backbone.channels
    if channels != 3:
        table = _table(("channel", "mean", "std"), _by_channel(model))
        return (
            f"## Input\n\nImages as float tensors (N, {channels}, {size}, {size}), with the "
            f"channels in the order of the training images: {_values(model)}, less the mean, over "
            f"the standard deviation of each channel.\n\n{table}"
        )
    rows = [("mean", *map(repr, model.mean)), ("std", *map(repr, model.std))]
    return (
        f"## Input\n\nImages as float tensors (N, 3, {size}, {size}), RGB: {_values(model)}, less "
        f"the mean, over the standard deviation.\n\n{_table(('', 'red', 'green', 'blue'), rows)}"
    )


def _values(model: LoadedModel) -> str:
    """Return what the numbers of an image are before they are normalized."""
    pixels = model.pixels
    if pixels is None or pixels.type == "uint8":
        return "pixels in [0, 1]"
    low, high = (f"{value:.10g}" for value in pixels.value_range)
    return f"values from {low} to {high} of the files as 0 to 1 (kept as {pixels.type})"


def _by_channel(model: LoadedModel) -> list[tuple[str, ...]]:
    """Return a row for each channel."""
    return [
        (str(number), repr(mean), repr(std))
        for number, (mean, std) in enumerate(zip(model.mean, model.std, strict=True), 1)
    ]


def _scores(results: Sequence[Result]) -> list[str]:
    if not results:
        return []
    rows = [
        (
            result.protocol,
            f"{_last_part(result.data)}, {result.split}",
            ", ".join(f"{name} {format_metric(result, name)}" for name in result.metrics),
            "; ".join([*describe(result).splitlines(), f"seed {result.seed}"]),
        )
        for result in results
    ]
    return [f"## Scores\n\n{_table(('protocol', 'data', 'result', 'how'), rows)}"]


def _of(backbone: Backbone) -> str:
    """Return the channels of images, where they are not RGB."""
    count = backbone.channels
    return "" if count == 3 else f" and {count} channel{'s' * (count > 1)}"


def _times(width: float) -> str:
    return "" if width == 1 else f" ×{width:g}"


def _python(code: str) -> str:
    return f"```python\n{code}\n```"


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(str(cell)) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    """Return text that cannot break out of a line or a cell, nor pass for HTML."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")
