"""Interface of a method: its settings and traits, and the functions that the trainer calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, cast

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.losses import LossStats
from amcl.settings import Rule

S = TypeVar("S", bound="MethodSettings")
C = TypeVar("C")  # a whole configuration, of which a method's settings are a part


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """Settings of a method, and the traits by which the rest of the library treats it.

    Example:
        >>> from amcl.methods import METHODS
        >>> settings = METHODS["simclr"].settings_class()
        >>> settings.label, settings.has_negatives, settings.num_negatives(batch_size=8)
        ('SimCLR', True, 14)
    """

    name: ClassVar[str]
    """Name on the command line and in files."""
    title: ClassVar[str] = ""
    """Name for people; the name where it is empty."""
    network: ClassVar[Literal["resnet", "vit"]] = "resnet"
    """Family of backbones that its recipes use."""
    has_heads: ClassVar[bool] = False
    """True for a method with projection heads, which has an AMCL form."""
    amcl_by_default: ClassVar[bool] = False
    """True for a method whose AMCL form is trained unless a user chooses another."""
    has_negatives: ClassVar[bool] = False
    """True for a method that contrasts each image with other images."""
    needs_labels: ClassVar[bool] = False
    """True for a method that learns from the classes of its images."""
    needs_augmentation: ClassVar[bool] = True
    """True for a method that learns nothing from views that are all alike."""
    multi_crop: ClassVar[bool] = False
    """True for a method that takes smaller crops behind its views of full size."""
    fitted: ClassVar[tuple[str, ...]] = ()
    """Settings that are lowered where a data set has few images."""
    layer_rates: ClassVar[bool] = False
    """True for a method that sets the learning rates of the backbone's layers itself."""
    lr_option: ClassVar[str] = "--lr"
    """The option that sets the learning rate."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """Conditions under which settings have an effect."""
    first_stage_epochs: ClassVar[int | None] = None
    """Epochs of the run that the method makes before its own, where it makes one."""

    def __post_init__(self) -> None:
        """End the chain of checks."""

    @property
    def label(self) -> str:
        """Name for people."""
        return self.title or self.name

    @property
    def adapts(self) -> bool:
        """Return whether pairs have temperatures of their own that are learned."""
        return False

    def describe(self) -> str:
        """Return the method in a few words, for a log."""
        return self.name

    def facts(self) -> list[tuple[str, str]]:
        """Return names and values that characterize the method, for tables such as model cards."""
        return []

    def published(self: S) -> S:
        """Return the settings of the method as published; the AMCL form differs."""
        return self

    def amcl(self: S) -> S:
        """Return the settings of the AMCL form."""
        raise ValueError(f"{self.name} has no heads, and so no AMCL form.")

    def num_negatives(self, batch_size: int) -> int:
        """Return the number of negatives of an anchor in batches of this size."""
        return 0

    def sharding_refusal(self) -> str:
        """Return why the method cannot be divided among processes; empty if it can."""
        return ""

    def check(self) -> None:
        """Raise an error where the settings do not make a loss; called with the meta device."""

    def check_batch(self, batch_size: int, accumulate: int = 1) -> None:
        """Raise an error where the settings do not fit batches of this size."""

    def min_batch_size(self) -> int:
        """Return the smallest batch that the settings allow."""
        return 1

    def fit(self: S, images: int, batch_size: int) -> tuple[S, list[str]]:
        """Lower the settings in `fitted` to suit a data set.

        Returns:
            The settings, and a sentence for each change.
        """
        return self, []

    def with_first_stage(self: S, epochs: int) -> S:
        """Return the settings with a first stage of this many epochs."""
        raise ValueError(f"{self.name} has no first stage.")

    def first_stage(self, config: C) -> C | None:
        """Return the configuration of the run that this one starts from, if it needs one."""
        return None


class Drawn(NamedTuple):
    """Random numbers of a method for n images with V views each, on the CPU.

    Args:
        masked: True where a patch is not seen, (V, n, L).
        sigma: σ of the noise in each view, (V, n); 0 for none.
        seeds: Seeds of the noise of each view, (V, n).

    Example:
        >>> drawn = Drawn(torch.ones(2, 8, 64) > 0, torch.zeros(2, 8), torch.arange(16).view(2, 8))
        >>> drawn.rows(0, 4).masked.shape
        torch.Size([2, 4, 64])
    """

    masked: torch.Tensor
    sigma: torch.Tensor
    seeds: torch.Tensor

    def rows(self, start: int, stop: int) -> "Drawn":
        """Return the numbers of images start … stop − 1: the part of a rank or a micro-batch.

        Args:
            start: Index of the first image.
            stop: Index behind that of the last image.

        Returns:
            The same of fewer images.
        """
        return Drawn(*(value[:, start:stop] for value in self))


class Method(nn.Module):
    """A self-supervised method: views of N images in, a loss out.

    Args:
        settings: Settings of the method.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> class Mean(Method):
        ...     def forward(self, views, watch=False):
        ...         return torch.stack([self.backbone(view).mean() for view in views]).sum()
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> Mean(MethodSettings(), backbone)(torch.randn(2, 4, 3, 32, 32)).shape
        torch.Size([])
    """

    settings_class: ClassVar[type[MethodSettings]]
    """The dataclass of its settings, set by `register_method`."""
    num_views: ClassVar[int] = 2
    """Number of views of full size that it takes of each image."""
    exported: ClassVar[str] = "backbone"
    """Name of the module that is the trained backbone, where it is not the one that learns."""
    stats: LossStats | None = None
    """Statistics of similarities and temperatures of the last call with `watch`."""
    terms: dict[str, torch.Tensor]
    """Terms of the loss in the last call with `watch` that are not over heads."""

    def __init__(self, settings: MethodSettings, backbone: Backbone) -> None:
        super().__init__()
        self.settings = settings
        self.backbone = backbone
        self.terms = {}

    @property
    def trained_backbone(self) -> Backbone:
        """The backbone that is probed, evaluated and exported."""
        return cast(Backbone, self.get_submodule(self.exported))

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        """Return the loss of the views of N images.

        Args:
            views: Tensors (N, C, S, S) of C channels, the views of full size first. Their sizes may
                differ.
            watch: Keep statistics in `stats` and `terms`.

        Returns:
            The loss, a scalar. A method that draws something beside the views takes it as `drawn`;
            one that needs labels takes the classes (N,) of the images as `labels`.
        """
        raise NotImplementedError

    def draw(self, n: int, generator: torch.Generator) -> Drawn | None:
        """Draw what the method needs for n images beside their views: masks, noise.

        Args:
            n: Number of images.
            generator: Source of randomness, on the CPU.

        Returns:
            The random numbers; None for a method that needs none.
        """
        return None

    def init_weights(self) -> None:
        """Draw the backbone's first weights, where the method has its own initialization."""

    def load_backbone(self, weights: Mapping[str, torch.Tensor], source: object) -> None:
        """Load the backbone's first weights.

        Args:
            weights: Weights with timm's keys.
            source: Their origin, for messages.
        """
        self.backbone.load(weights, source)

    def set_num_images(self, count: int) -> None:
        """Set the number of training images, before training begins.

        Args:
            count: Number of images.
        """

    def set_images(self, indices: torch.Tensor) -> None:
        """Set the images whose views the next call gets.

        Args:
            indices: Their indices (N,) in the training set, on this process.
        """

    def before_step(self, epoch: float, progress: float) -> None:
        """Prepare a step.

        Args:
            epoch: Epochs since the start of the run; fractions count.
            progress: Share of the run that is done, from 0 to 1.
        """

    def after_backward(self) -> None:
        """Change gradients, after they are clipped and before the optimizer's step."""

    def after_step(self) -> None:
        """Finish a step, after the optimizer's."""

    def constant_lr_modules(self) -> list[nn.Module]:
        """Return the modules whose learning rate does not decay."""
        return []

    def lr_scales(self) -> dict[nn.Parameter, float]:
        """Return the parameters that learn at a multiple of the learning rate; the others at 1."""
        return {}

    def log_metrics(self) -> dict[str, float]:
        """Return the statistics of the last call with `watch` as flat numbers for a log."""
        of_heads: dict[str, Any] = {} if self.stats is None else self.stats.to_dict()
        return {f"term/{name}": value.item() for name, value in self.terms.items()} | of_heads


def pair(views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the two views of a method that compares two.

    Args:
        views: Two tensors (N, C, S, S) of C channels.

    Returns:
        Both views.

    Raises:
        ValueError: If there is another number of views.

    Example:
        >>> view0, view1 = pair(torch.zeros(2, 4, 3, 32, 32))
        >>> view0.shape
        torch.Size([4, 3, 32, 32])
    """
    if len(views) != 2:
        raise ValueError(
            f"this method compares two views of each image, got {len(views)}: give a list of two "
            "tensors (N, C, S, S)."
        )
    first, second = views
    return first, second
