"""Options that name a model, for all commands that take one."""

import logging
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from amcl.checkpoints.load import open_model
from amcl.checkpoints.loaded_model import LoadedModel

logger = logging.getLogger("amcl")

Model = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="MODEL",
        help="A run folder, a checkpoint of it, a file of weights, a model that comes with amcl "
        "(`amcl models` lists them), published weights (timm:NAME, hf:OWNER/NAME, "
        "torchvision:NAME), or a timm model by name.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """How a file of weights, or a timm model, is to be taken; a run says all this itself."""

    backbone: str | None = None
    """The timm model whose weights a file holds."""
    width: float = 1.0
    """Multiplies every width of it."""
    stem: Literal["auto", "small", "standard"] = "auto"
    """small: 3×3, stride 1, no pooling (CIFAR); standard: as timm; auto: small up to 64 pixels."""
    patch: int | None = None
    """Pixels a side of a vision transformer's patches; none: as in pre-training."""
    pool: Literal["auto", "mean"] = "auto"
    """A vision transformer's features: auto: as timm; mean: the mean of the patch tokens."""
    mean: tuple[float, ...] | None = None
    """Means of the channels that it was trained with; none: the model's own, or ImageNet's. Of
    other than three, the network takes as many channels."""
    std: tuple[float, ...] | None = None
    """Standard deviations of the channels."""
    prefix: str | None = None
    """What stands before the names of its weights in the file; none: it is found."""
    pretrained: bool = False
    """Take timm's weights of a timm model, as timm:NAME does."""

    def open(self, source: str, seed: int = 0) -> LoadedModel:
        """Load a model, and log what was chosen on behalf of the user.

        Args:
            source: What the user named, as `open_model` takes it.
            seed: Seed of random weights.

        Returns:
            The model.
        """
        model = open_model(source, **vars(self), seed=seed)
        for note in model.notes:
            logger.info("%s: %s", model.name, note)
        return model


@dataclass(frozen=True, kw_only=True)
class ModelOptions(NetworkOptions):
    """The same, for commands that give the model images of the size that it was trained with."""

    image_size: int | None = None
    """Pixels a side of its input; none: the model's own."""
