"""MAE: the masked patches of an image are predicted from the visible ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl import functional as F
from amcl.backbones import Backbone
from amcl.methods.base import Drawn, Method
from amcl.methods.masked import MaskedSettings, patch_of
from amcl.methods.registry import register_method
from amcl.modules import encode_visible, fix_positions, init_xavier


@dataclass(frozen=True, kw_only=True)
class MAESettings(MaskedSettings):
    """Settings of MAE. It has no heads and no temperature.

    Example:
        >>> MAESettings().facts()
        [('masked', '75% of the patches')]
    """

    name: ClassVar[str] = "mae"
    title: ClassVar[str] = "MAE"
    needs_augmentation: ClassVar[bool] = False
    lr_option: ClassVar[str] = "--lr (in the first stage of LGP: --mae-lr)"


@register_method(MAESettings)
class MAE(Method):
    """A masked autoencoder: LGP's first stage, and a reference without contrast.

    Args:
        settings: Settings of masks and decoder.
        backbone: The network that is trained, a plain vision transformer.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> vit = BackboneSettings(name="vit_tiny_patch16_224", width=0.125)
        >>> settings = MAESettings(decoder_dim=8, decoder_depth=1, decoder_heads=2)
        >>> method = MAE(settings, Backbone(vit, image_size=32))
        >>> method([torch.randn(4, 3, 32, 32)]).shape
        torch.Size([])
    """

    num_views = 1
    settings: MAESettings

    def __init__(self, settings: MAESettings, backbone: Backbone) -> None:
        super().__init__(settings, backbone)
        self.patch = patch_of(backbone)
        if getattr(backbone.network, "attn_pool", None) is not None:
            raise ValueError(
                f"{backbone.settings.name!r} pools by attention, which MAE would never train: "
                "choose a network that ends in a class token, such as vit_tiny_patch16_224."
            )
        fix_positions(backbone.network)
        self.decoder = settings.make_decoder(backbone)

    def init_weights(self) -> None:
        init_xavier(self.backbone.network)

    def draw(self, n: int, generator: torch.Generator) -> Drawn:
        return self.settings.draw(self.num_views, n, self.backbone, generator)

    def forward(
        self,
        views: Sequence[torch.Tensor],
        watch: bool = False,
        drawn: Drawn | None = None,
    ) -> torch.Tensor:
        """Return the loss of the views, each as though it were of another image."""
        images = views[0] if len(views) == 1 else torch.cat(list(views))
        if drawn is None:
            drawn = self.draw(len(images), torch.default_generator)
        masked = drawn.masked.flatten(0, 1)
        prediction = self.decoder(encode_visible(self.backbone.network, images, masked), masked)
        targets = self.settings.targets(images, self.patch)
        loss = F.masked_reconstruction(prediction, targets, masked)
        if watch:
            self.terms = {"reconstruction": loss.detach()}
        return loss
