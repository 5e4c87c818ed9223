"""Parameters and FLOPs of a configuration, counted on shapes: nothing is computed or held."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from amcl.backbones import Backbone, BackboneSettings
from amcl.config import Config
from amcl.data.builtin import SIZE
from amcl.data.named import NAMED
from amcl.methods import Method, make_method
from amcl.seeds import generator
from amcl.settings import whole_number
from amcl.training.pretrain import load_data

_PARTS = {"loss": "temperature", "keys": "momentum"}  # what users call parts of a method


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a configuration costs, by count.

    FLOPs are those of products, convolutions and attention, two for each multiplication with its
    addition. Norms, activations, views and the optimizer's step are not among them.
    """

    image_size: int
    batch_size: int
    """Images whose pairs are compared with each other: those of a step, or of a part of it."""
    parameters: dict[str, int]
    """By part: backbone, heads, predictors, temperature (φ, or a learned τ), decoder, …"""
    trained: int
    """Those of them that move: fixed positions and frozen patch embeddings do not."""
    momentum: int
    """Parameters of the copy that follows backbone and heads, and is not trained."""
    forward_flops: float
    """Of the loss of an image, all its views; MoCo's keys and queue are part of it."""
    step_flops: float
    """Of the loss and its gradient, an image."""
    inference_flops: float
    """Of the backbone's features of an image."""

    @property
    def training_parameters(self) -> int:
        """All parts, but for the momentum copy."""
        return sum(self.parameters.values())

    @property
    def inference_parameters(self) -> int:
        """The backbone alone: heads are thrown away."""
        return self.parameters["backbone"]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self) | {
            "training_parameters": self.training_parameters,
            "inference_parameters": self.inference_parameters,
        }


def cost_of(config: Config, image_size: int | None = None) -> Cost:
    """Parameters and FLOPs of a configuration, at its own batch size.

    `image_size`: pixels a side of the views; None takes what the configuration would train with.

    >>> cost = cost_of(Config())
    >>> cost.parameters["heads"], cost.parameters["backbone"] == cost.inference_parameters
    (328320, True)
    """
    size = image_size_of(config) if image_size is None else whole_number("image_size", image_size)
    images = config.run.batch_size // config.run.accumulate
    with torch.device("meta"):
        method = make_method(config.method, Backbone(config.backbone, size))
    parts = _parameters(method)
    with torch.no_grad():
        forward = _flops(lambda: _loss(method, images, size))
    step = _flops(lambda: _loss(method, images, size).backward())
    return Cost(
        image_size=size,
        batch_size=images,
        momentum=parts.pop("momentum", 0),
        parameters=parts,
        trained=sum(p.numel() for p in method.parameters() if p.requires_grad),
        forward_flops=forward / images,
        step_flops=step / images,
        inference_flops=backbone_flops(config.backbone, size),
    )


def backbone_flops(settings: BackboneSettings, image_size: int) -> int:
    """FLOPs of a backbone's features of one image."""
    with torch.device("meta"), torch.no_grad():
        backbone = Backbone(settings, image_size).eval()
        return _flops(lambda: backbone(torch.empty(1, 3, image_size, image_size)))


def image_size_of(config: Config) -> int:
    """Pixels a side of the views; of a folder's pictures, a hundred at most are looked at."""
    settings = config.data
    if settings.image_size is not None:
        return settings.image_size
    if settings.source == "builtin":
        return SIZE
    if settings.source in NAMED:
        return NAMED[settings.source].image_size
    # With no memory to keep them in, nothing is decoded.
    return load_data(replace(config, data=replace(settings, memory=0.0, probe="none"))).image_size


def _parameters(method: Method) -> dict[str, int]:
    """Parameters by part, trained or not; parts without any are left out."""
    counts: dict[str, int] = {}
    for name, parameter in method.named_parameters():
        first = name.partition(".")[0]
        part = _PARTS.get(first, first)
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def _loss(method: Method, images: int, size: int) -> torch.Tensor:
    """The loss of views without values. Masks have some: how many patches are seen matters."""
    views = list(torch.empty(method.num_views, images, 3, size, size, device="meta"))
    drawn = method.draw(images, generator("cost"))
    beside = {} if drawn is None else {"drawn": drawn}
    loss: torch.Tensor = method(views, **beside)
    return loss


def _flops(work: Callable[[], object]) -> int:
    # Fused attention is another operation on each device, with FLOPs of its own; products are not.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())
