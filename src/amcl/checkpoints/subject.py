"""A backbone and what is known about it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amcl.backbones import Backbone
from amcl.config import Config
from amcl.data.images import Rgb


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A backbone to evaluate, embed with or export; `open_model` finds it."""

    name: str
    """For people: the run folder or file as given, or the timm model."""
    backbone: Backbone
    """In evaluation mode, with `normalization` set."""
    mean: Rgb
    """Of the channels it was trained with, for values in [0, 1]."""
    std: Rgb
    folder: Path | None = None
    """The run folder it belongs to."""
    checkpoint: Path | None = None
    """Where the whole method is, with its heads."""
    config: Config | None = None
    """Of the run."""
    images: int | None = None
    """How many it was trained on."""
    step: int | None = None
    """How far it was trained."""
    epoch: float | None = None
    untrained: bool = False
    """Whether its weights are random."""
    notes: tuple[str, ...] = ()
    """What was chosen or left out on the user's behalf."""

    def __post_init__(self) -> None:
        self.backbone.eval()
        self.backbone.normalization = (self.mean, self.std)

    def trained(self) -> dict[str, Any]:
        """What a file of its weights says about them, as a run's own files do."""
        known = {name: getattr(self, name) for name in ("images", "step", "epoch")}
        return {
            "image_size": self.backbone.image_size,
            "mean": self.mean,
            "std": self.std,
            **{name: value for name, value in known.items() if value is not None},
        }

    @staticmethod
    def of(name: str, backbone: Backbone, trained: dict[str, Any], **known: Any) -> "Subject":
        """The model whose file said `trained` of itself."""
        mean, std = tuple(trained["mean"]), tuple(trained["std"])
        known |= {key: trained.get(key) for key in ("images", "step", "epoch")}
        return Subject(name=name, backbone=backbone, mean=mean, std=std, **known)
