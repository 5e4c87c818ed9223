"""A fine-tuned classifier as a file that holds all that is needed to use it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from amcl.backbones import Backbone, BackboneSettings, own_randomness
from amcl.data.pixel_format import RGB, PixelFormat
from amcl.evaluation.finetuning.classifier import classifier
from amcl.files import whole_file
from amcl.metrics.features import Transform
from amcl.tensor_files import read_safetensors, tensor_bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedClassifier:
    """A classifier that was read from its file, in evaluation mode."""

    model: nn.Module
    """Images (N, C, S, S) → logits (N, K)."""
    classes: tuple[str, ...]
    """Names of the classes."""
    transform: Transform
    """Transform from stored images to the model's input."""
    pixels: PixelFormat = RGB
    """Format of the images that it was trained on."""


def save_classifier(
    path: Path,
    weights: Mapping[str, torch.Tensor],
    classes: Sequence[str],
    backbone: nn.Module,
    transform: Transform,
    pixels: PixelFormat = RGB,
) -> None:
    """Write a classifier with all that is needed to use it.

    Args:
        path: The file, in the format of safetensors.
        weights: Weights of the classifier.
        classes: Names of the classes.
        backbone: The backbone it was made from; of a `Backbone` the file names the network.
        transform: Transform from stored images to the model's input.
        pixels: Format of the images that it was trained on.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.125), image_size=16)
        >>> model = classifier(backbone, 2, image_size=16)
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "classifier.safetensors"
        ...     transform = Transform(image_size=16)
        ...     save_classifier(path, model.state_dict(), ["cat", "dog"], backbone, transform)
        ...     load_classifier(path).classes
        ('cat', 'dog')
    """
    metadata: dict[str, Any] = {"classes": list(classes), "transform": asdict(transform)}
    metadata |= pixels.metadata()
    if isinstance(backbone, Backbone):
        metadata["network"] = backbone.metadata()
    with whole_file(path) as file:
        file.write(tensor_bytes(weights, metadata))


def load_classifier(path: Path) -> SavedClassifier:
    """Read a classifier that `save_classifier` wrote; nothing in the file is executed.

    Args:
        path: The file.

    Returns:
        The classifier, the names of its classes and its transform.

    Raises:
        ValueError: The file is damaged, or does not say how it can be used.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.125), image_size=16)
        >>> model = classifier(backbone, 2, image_size=16)
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "classifier.safetensors"
        ...     transform = Transform(image_size=16)
        ...     save_classifier(path, model.state_dict(), ["cat", "dog"], backbone, transform)
        ...     saved = load_classifier(path)
        >>> saved.model(torch.zeros(1, 3, 16, 16)).shape, saved.transform.image_size
        (torch.Size([1, 2]), 16)
    """
    weights, stored = read_safetensors(path)
    metadata = stored or {}
    missing = [name for name in ("classes", "network", "transform") if name not in metadata]
    if missing:
        raise ValueError(
            f"{path} does not say its {', '.join(missing)}, so it cannot be used to predict: give "
            "a classifier written by `amcl evaluate RUN --protocols finetune` of this version."
        )
    classes = tuple(metadata["classes"])
    transform = _transform(metadata["transform"])
    model = _network(metadata["network"], len(classes), transform.channels)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"the weights in {path} do not fit its network: {error}") from error
    return SavedClassifier(
        model=model.eval(),
        classes=classes,
        transform=transform,
        pixels=PixelFormat.from_metadata(metadata, path),
    )


def _network(settings: dict[str, Any], classes: int, channels: int) -> nn.Module:
    size = settings["image_size"]
    with own_randomness():
        backbone = Backbone(BackboneSettings.from_metadata(settings), size, channels=channels)
    return classifier(backbone, classes, image_size=size, channels=channels)


def _transform(values: dict[str, Any]) -> Transform:
    return Transform(**values | {name: tuple(values[name]) for name in ("mean", "std")})
