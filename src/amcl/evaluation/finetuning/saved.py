"""A fine-tuned classifier as a file that says all that is needed to use it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from amcl.backbones import Backbone, BackboneSettings, own_randomness
from amcl.evaluation.finetuning.classifier import classifier
from amcl.files import whole_file
from amcl.metrics.features import Transform


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedClassifier:
    """A classifier that was read from its file, in evaluation mode."""

    model: nn.Module
    """Images (N, 3, S, S) → logits (N, K)."""
    classes: tuple[str, ...]
    transform: Transform
    """From stored images to the model's input."""


def save_classifier(
    path: Path,
    weights: Mapping[str, torch.Tensor],
    classes: Sequence[str],
    backbone: nn.Module,
    transform: Transform,
) -> None:
    """Write weights, names of classes, transform and, of a `Backbone`, which network it is."""
    about = {"classes": json.dumps(classes), "transform": json.dumps(asdict(transform))}
    if isinstance(backbone, Backbone):
        about["network"] = json.dumps(backbone.metadata())
    with whole_file(path) as file:
        file.write(save(dict(weights), about))


def load_classifier(path: Path) -> SavedClassifier:
    """Read what `save_classifier` wrote; nothing in the file is executed."""
    try:
        with safe_open(path, "pt") as stored:
            about = stored.metadata() or {}
            weights = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file, or damaged: {error}.") from error
    missing = [name for name in ("classes", "network", "transform") if name not in about]
    if missing:
        raise ValueError(
            f"{path} does not say its {', '.join(missing)}, so it cannot be used to predict: give "
            "a classifier written by `amcl evaluate RUN --protocols finetune` of this version."
        )
    classes = tuple(json.loads(about["classes"]))
    model = _network(json.loads(about["network"]), len(classes))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"the weights in {path} do not fit its network: {error}") from error
    return SavedClassifier(
        model=model.eval(), classes=classes, transform=_transform(json.loads(about["transform"]))
    )


def _network(made: dict[str, Any], classes: int) -> nn.Module:
    size = made.pop("image_size")
    with own_randomness():
        backbone = Backbone(BackboneSettings(**made), size)
    return classifier(backbone, classes, image_size=size)


def _transform(values: dict[str, Any]) -> Transform:
    return Transform(**values | {name: tuple(values[name]) for name in ("mean", "std")})
