"""Groups of crops: the views of full size, and smaller local crops behind them."""

from collections.abc import Sequence

import torch

from amcl.views.parameters import ViewParameters
from amcl.views.settings import ViewSettings
from amcl.views.views import IMAGENET_MEAN, IMAGENET_STD, Views

_LOCAL_RATIO = 3 / 7  # of the views' size: 96 pixels for 224


class ViewGroups:
    """All views of each image that a method takes, in groups of one size.

    The first group has `num_views` views of full size; with ``settings.local_crops`` a second one
    has as many smaller crops.

    Args:
        size: Pixels a side of the views of full size.
        settings: Settings of the views.
        num_views: Number of views of full size.
        patch: Pixels that the default size of local crops is a multiple of.
        mean: Mean of each channel, for images in [0, 1].
        std: Standard deviation of the channels.

    Example:
        >>> views = ViewGroups(28, ViewSettings(local_crops=3))
        >>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
        >>> parameters = views.draw(4, generator=torch.Generator().manual_seed(0))
        >>> [tuple(view.shape) for view in views(images, parameters)]
        [(4, 3, 28, 28), (4, 3, 28, 28), (4, 3, 12, 12), (4, 3, 12, 12), (4, 3, 12, 12)]
    """

    def __init__(
        self,
        size: int,
        settings: ViewSettings,
        num_views: int = 2,
        *,
        patch: int = 1,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        self.num_views = num_views
        # One view is the first of two, so that it is the same whether a second one is made.
        self.groups = [Views(size, settings, mean=mean, std=std, count=max(2, num_views))]
        if settings.local_crops:
            patches = max(1, round(size * _LOCAL_RATIO / patch))
            small = settings.local_size or patches * patch
            count = settings.local_crops
            self.groups.append(Views(small, settings.local(), mean=mean, std=std, count=count))

    @property
    def sizes(self) -> list[int]:
        """Pixels a side of each view of an image, in the order of the views."""
        first, *others = self.groups
        local = [group.size for group in others for _ in range(group.count)]
        return [first.size] * self.num_views + local

    def draw(
        self, n: int, *, generator: torch.Generator, shapes: torch.Tensor | None = None
    ) -> list[ViewParameters]:
        """Draw the parameters of the views of n images, group by group.

        Args:
            n: Number of images.
            generator: Source of randomness, on the CPU.
            shapes: True heights and widths (n, 2) of images that are stored squashed; see
                `Views.draw`.

        Returns:
            The parameters of each group, on the CPU.
        """
        parameters = [group.draw(n, generator=generator, shapes=shapes) for group in self.groups]
        if self.num_views == 1:
            parameters[0] = parameters[0].first()
        return parameters

    def __call__(
        self,
        images: torch.Tensor,
        parameters: Sequence[ViewParameters],
        *,
        channels_last: bool = False,
    ) -> list[torch.Tensor]:
        """Make the views of stored images (N, C, H, W).

        Args:
            images: The images as they are stored.
            parameters: The result of `draw`, or some of its rows.
            channels_last: Return tensors in torch's channels-last memory format.

        Returns:
            A float32 tensor (N, C, S, S) for each view, normalized, the views of full size first.
        """
        all_views: list[torch.Tensor] = []
        for group, group_parameters in zip(self.groups, parameters, strict=True):
            views = group(images, group_parameters.to(images.device))
            if channels_last:
                flat = views.flatten(0, 1).contiguous(memory_format=torch.channels_last)
                all_views += flat.chunk(len(views))
            else:
                all_views += views
        return all_views
