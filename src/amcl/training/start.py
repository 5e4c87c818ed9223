"""The first weights of a run: random, trained ones, or those of a first stage of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

import torch

from amcl.backbones import Backbone
from amcl.checkpoints.adapt import adapted
from amcl.checkpoints.load import open_start
from amcl.checkpoints.loaded_model import AS_BEFORE, AS_IMAGENET
from amcl.checkpoints.run_folder import Resumed, RunFolder
from amcl.config import Config
from amcl.data import DataSet
from amcl.data.images import PerChannel
from amcl.errors import RunError
from amcl.methods import Method, make_method
from amcl.modules import is_vit
from amcl.printable import counted
from amcl.seeds import seed_of
from amcl.text_files import require


def first_stage(config: Config) -> Config | None:
    """Return the run whose weights this one starts from; None if it makes none of its own."""
    return None if config.run.init is not None else config.method.first_stage(config)


def fresh_method(config: Config, image_size: int, channels: int = 3) -> Method:
    """Return the method with its first, random weights, the same on every process."""
    torch.manual_seed(seed_of(config.run.seed, "weights"))
    method = make_method(config.method, Backbone(config.backbone, image_size, channels=channels))
    method.init_weights()
    return method


@dataclass(frozen=True, kw_only=True)
class FirstWeights:
    """Trained weights of a backbone, for the network of a run."""

    name: str
    """Name of their origin, as the user typed it."""
    network: str
    """The network that they were trained in, in words."""
    tensors: Mapping[str, torch.Tensor]
    """The weights with timm's keys, adapted to images, channels and patches of the run."""
    notes: tuple[str, ...]
    """Sentences about their origin, and about what was adapted."""
    mean: PerChannel | None
    """Means of the channels they were trained with; None if the images of the run have other
    channels, or if nothing says it: then it has means of its own."""
    std: PerChannel | None
    """Standard deviations of the channels."""


def first_weights(
    config: Config, folder: RunFolder, image_size: int, channels: int = 3
) -> FirstWeights | None:
    """Return the weights that a new run starts from; None for random ones.

    Args:
        config: Settings of the run.
        folder: Its folder, which may hold a first stage.
        image_size: Pixels a side of its views.
        channels: Number of channels of its images.
    """
    if config.run.init is not None:
        model = open_start(config.run.init, config.backbone, image_size)
    elif first_stage(config) is not None:
        model = open_start(folder.first_stage.backbone)
    else:
        return None
    with torch.device("meta"):  # made for its shapes
        target = Backbone(config.backbone, image_size, channels=channels)
    tensors, changes = adapted(model.backbone.network.state_dict(), target.network, model.name)
    notes = [*model.notes, *changes]
    if not (keeps := model.is_normalized and model.backbone.channels == channels):
        notes = [note for note in notes if note not in (AS_BEFORE, AS_IMAGENET)]
        notes.append("images are normalized by their own mean and spread")
    return FirstWeights(
        name=model.name,
        network=_network(model.backbone),
        tensors=tensors,
        notes=tuple(notes),
        mean=model.mean if keeps else None,
        std=model.std if keeps else None,
    )


def init_from(method: Method, weights: FirstWeights) -> None:
    """Give a method trained weights of its backbone."""
    try:
        method.load_backbone(weights.tensors, weights.name)
    except ValueError as error:
        raise RunError(
            f"{weights.name} holds {weights.network}, and this run trains "
            f"{_network(method.backbone)}: use the same --backbone, --width and --stem. {error}"
        ) from error


def method_to_train(
    config: Config, image_size: int, weights: FirstWeights | None, channels: int = 3
) -> Method:
    """Return the method, random or with trained weights."""
    method = fresh_method(config, image_size, channels)
    if weights is not None:
        init_from(method, weights)
    return method


class _Normalized(TypedDict):
    """What a checkpoint says of the images of its run."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def check_channels(data: DataSet, resumed: Resumed) -> None:
    """Raise an error if a checkpoint is of images of another number of channels.

    Args:
        data: The images.
        resumed: The checkpoint that the run is resumed from.
    """
    trained = resumed.state.get("trained") or {}
    require(trained, _Normalized, resumed.path)
    if len(trained["mean"]) != data.channels:
        raise RunError(
            f"{resumed.path} is of images of {counted(len(trained['mean']), 'channel')}, and those "
            f"of {data.name} have {data.channels}: put the images back, or start a new run."
        )


def normalized_for(data: DataSet, weights: FirstWeights | None, resumed: Resumed | None) -> DataSet:
    """Return images that are normalized as those were that the first weights were trained on.

    Images of other channels keep their own normalization.

    Args:
        data: The images.
        weights: The weights that a new run starts from, if they are trained ones.
        resumed: The checkpoint of a run that started from trained weights and is resumed.
    """
    if weights is not None:
        if weights.mean is None or weights.std is None:
            return data
        return replace(data, mean=weights.mean, std=weights.std)
    if resumed is None:
        return data
    trained = resumed.state.get("trained") or {}
    return replace(data, mean=tuple(trained["mean"]), std=tuple(trained["std"]))


def _network(backbone: Backbone) -> str:
    settings = backbone.settings
    network = backbone.network
    patches = f" in patches of {network.patch_embed.patch_size[0]}" if is_vit(network) else ""
    size = f"{backbone.image_size} pixels{patches}"
    return f"{settings.name} ×{settings.width:.3g} for {size}"
