"""Parameters and FLOPs of a configuration, counted on shapes: nothing is computed or held."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from amcl.backbones import Backbone, BackboneSettings
from amcl.config import PLACEHOLDER, Config
from amcl.data.builtin import SIZE
from amcl.data.named import DATASETS
from amcl.methods import Method, make_method
from amcl.seeds import generator
from amcl.settings import whole_number
from amcl.training.activation_checkpointing import checkpoint_activations
from amcl.training.pretrain import load_data
from amcl.views import ViewGroups

# module of a method → name for users
_PARTS = {
    "loss": "temperature",
    "keys": "momentum",
    "teacher": "momentum",
    "teacher_prototypes": "momentum",
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of a configuration, by count.

    FLOPs are those of products, convolutions and attention, two for each multiplication with its
    addition. Norms, activations, views and the optimizer's step are not among them.
    """

    image_size: int
    """Pixels a side of the views."""
    channels: int
    """Number of their channels."""
    batch_size: int
    """Images whose pairs are compared with each other: those of a step, or of a part of it."""
    parameters: dict[str, int]
    """By part: backbone, heads, predictors, temperature (φ, or a learned τ), decoder, …"""
    trained: int
    """Number of trained parameters, without fixed positions and frozen patch embeddings."""
    momentum: int
    """Parameters of the copy that follows backbone and heads, and is not trained."""
    forward_flops: float
    """FLOPs of the loss of an image with all its views, and with MoCo's keys and queue."""
    step_flops: float
    """FLOPs of the loss and its gradient, an image."""
    inference_flops: float
    """FLOPs of the backbone's features of an image."""

    @property
    def training_parameters(self) -> int:
        """Parameters of all parts except the momentum copy."""
        return sum(self.parameters.values())

    @property
    def inference_parameters(self) -> int:
        """Parameters of the backbone alone: heads are not needed after training."""
        return self.parameters["backbone"]

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return asdict(self) | {
            "training_parameters": self.training_parameters,
            "inference_parameters": self.inference_parameters,
        }


def cost_of(config: Config, image_size: int | None = None, channels: int = 3) -> Cost:
    """Count parameters and FLOPs of a configuration.

    Args:
        config: The configuration.
        image_size: Pixels a side of the views; None for that of the training.
        channels: Number of channels of the images.

    Returns:
        Parameters by part, and FLOPs of training and inference.

    Example:
        >>> cost = cost_of(Config())
        >>> cost.parameters["heads"], cost.parameters["backbone"] == cost.inference_parameters
        (328320, True)
    """
    size = image_size_of(config) if image_size is None else whole_number("image_size", image_size)
    images = config.run.batch_size // config.run.accumulate
    with torch.device("meta"):
        method = make_method(config.method, Backbone(config.backbone, size, channels=channels))
    if config.hardware.activation_checkpointing:
        checkpoint_activations(method)
    parts = _parameters(method)
    sizes = ViewGroups(size, config.views, method.num_views, patch=method.backbone.patch).sizes
    with torch.no_grad():
        forward = _flops(lambda: _loss(method, images, sizes))
    step = _flops(lambda: _loss(method, images, sizes).backward())
    return Cost(
        image_size=size,
        channels=channels,
        batch_size=images,
        momentum=parts.pop("momentum", 0),
        parameters=parts,
        trained=sum(p.numel() for p in method.parameters() if p.requires_grad),
        forward_flops=forward / images,
        step_flops=step / images,
        inference_flops=backbone_flops(config.backbone, size, channels),
    )


def backbone_flops(settings: BackboneSettings, image_size: int, channels: int = 3) -> int:
    """Count the FLOPs of a backbone for one image.

    Args:
        settings: The network.
        image_size: Pixels a side of the image.
        channels: Number of its channels.

    Returns:
        The number of FLOPs, two for each multiplication with its addition.

    Example:
        >>> backbone_flops(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        32342016
    """
    with torch.device("meta"), torch.no_grad():
        backbone = Backbone(settings, image_size, channels=channels).eval()
        return _flops(lambda: backbone(torch.empty(1, channels, image_size, image_size)))


def image_size_of(config: Config) -> int:
    """Return the pixels a side of the views; of a folder, at most a hundred pictures are read.

    Args:
        config: The configuration.

    Returns:
        The size that the configuration names, else that of its data set.

    Example:
        >>> from amcl.recipes import recipe
        >>> image_size_of(recipe("cifar10-simclr")), image_size_of(recipe("stl10-simclr"))
        (32, 96)
    """
    settings = config.data
    if settings.image_size is not None:
        return settings.image_size
    if settings.source == "builtin":
        return SIZE
    if settings.source in DATASETS:
        return DATASETS[settings.source].image_size
    # With no memory to keep them in, nothing is decoded.
    return load_data(replace(config, data=replace(settings, memory=0.0, probe="none"))).image_size


def channels_of(config: Config) -> int:
    """Return the number of channels of the images; of a folder, a few pictures are read.

    Args:
        config: The configuration.

    Returns:
        The number that the configuration names, else 3 for named sets, and where no folder is
        named.

    Example:
        >>> channels_of(Config())
        3
    """
    settings = config.data
    if isinstance(settings.channels, int):
        return settings.channels
    if settings.source in ("builtin", PLACEHOLDER) or settings.source in DATASETS:
        return 3
    return load_data(replace(config, data=replace(settings, memory=0.0, probe="none"))).channels


def _parameters(method: Method) -> dict[str, int]:
    """Return the number of parameters by part, trained or not; parts without any are left out."""
    counts: dict[str, int] = {}
    for name, parameter in method.named_parameters():
        first = name.partition(".")[0]
        part = _PARTS.get(first, first)
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def _loss(method: Method, images: int, sizes: Sequence[int]) -> torch.Tensor:
    """Return the loss of views without values. Masks have values: their patches count."""
    channels = method.backbone.channels
    views = [torch.empty(images, channels, size, size, device="meta") for size in sizes]
    drawn = method.draw(images, generator("cost"))
    arguments: dict[str, Any] = {} if drawn is None else {"drawn": drawn}
    if method.settings.needs_labels:
        arguments["labels"] = torch.empty(images, dtype=torch.long, device="meta")
    loss: torch.Tensor = method(views, **arguments)
    return loss


def _flops(work: Callable[[], object]) -> int:
    # Fused attention is another operation on each device, with FLOPs of its own; products are not.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())
