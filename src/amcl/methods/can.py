"""CAN: contrast, masked reconstruction and the prediction of noise, of the same two views."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl import functional as F
from amcl.backbones import Backbone
from amcl.methods.base import Drawn, pair
from amcl.methods.contrastive import ContrastiveSettings
from amcl.methods.heads import HeadMethod
from amcl.methods.masked import MaskedSettings, noise_like, patch_of
from amcl.methods.registry import register_method
from amcl.modules import NoiseEmbedding, encode_visible, fix_positions, init_xavier
from amcl.settings import non_negative


@dataclass(frozen=True, kw_only=True)
class CANSettings(ContrastiveSettings, MaskedSettings):
    """Settings of CAN. Heads and temperature are those of its contrastive term.

    Example:
        >>> CANSettings().amcl().describe()
        'can, 3 heads, adaptive temperature'
    """

    name: ClassVar[str] = "can"
    title: ClassVar[str] = "CAN"

    projector: tuple[int, ...] = (4096, 4096, 128)
    projector_norm: bool = True
    mask_ratio: float = 0.5
    noise: float = 0.05
    """The most σ of the noise in a view, after normalization; each view draws its own."""
    contrast_weight: float = 0.03
    """Weight of the contrastive term."""
    reconstruction_weight: float = 0.67
    """Weight of the squared error of masked patches."""
    denoising_weight: float = 0.30
    """Weight of the squared error of the noise in visible patches."""

    def __post_init__(self) -> None:
        super().__post_init__()
        non_negative("noise", self.noise, "0 switches it off")
        weights = ("contrast_weight", "reconstruction_weight", "denoising_weight")
        for name in weights:
            non_negative(name, getattr(self, name), "0 switches it off")
        if not any(getattr(self, name) for name in weights):
            raise ValueError(f"{', '.join(weights)} are all 0: there is nothing to learn.")


@register_method(CANSettings)
class CAN(HeadMethod):
    """CAN, and with several heads and adaptive temperatures (Eq. 2.4) CAN + AMCL.

    The heads read what the backbone makes of the visible patches: with `pool="mean"` their mean,
    as published. `project` and `compared` show the backbone whole pictures, without masks or noise.

    Args:
        settings: Settings of heads, temperature, masks, noise, decoder and loss.
        backbone: The network that is trained, a plain vision transformer.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> vit = BackboneSettings(name="vit_tiny_patch16_224", width=0.125)
        >>> decoder = {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
        >>> settings = CANSettings(projector=(16, 8), **decoder)
        >>> method = CAN(settings, Backbone(vit, image_size=32))
        >>> method(torch.randn(2, 4, 3, 32, 32), watch=True).shape
        torch.Size([])
        >>> sorted(method.terms)
        ['contrast', 'denoising', 'reconstruction']
    """

    settings: CANSettings

    def __init__(self, settings: CANSettings, backbone: Backbone) -> None:
        loss = settings.make_loss("both_views")
        extra = loss.temperature.extra_outputs
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        super().__init__(settings, backbone, heads, loss)
        self.patch = patch_of(backbone)
        fix_positions(backbone.network)
        self.decoder = settings.make_decoder(backbone)
        self.noise_embedding = NoiseEmbedding(backbone.network.embed_dim)

    def init_weights(self) -> None:
        init_xavier(self.backbone.network)

    def draw(self, n: int, generator: torch.Generator) -> Drawn:
        return self.settings.draw(self.num_views, n, self.backbone, generator, self.settings.noise)

    def forward(
        self,
        views: Sequence[torch.Tensor],
        watch: bool = False,
        drawn: Drawn | None = None,
    ) -> torch.Tensor:
        view0, view1 = pair(views)
        if drawn is None:
            drawn = self.draw(len(view0), torch.default_generator)
        if drawn.masked.shape[:2] != (2, len(view0)):
            raise ValueError(
                f"drawn is for (views, images) = {tuple(drawn.masked.shape[:2])}, and there are "
                f"two views of {len(view0)} images: draw({len(view0)}, generator) fits."
            )
        masked, sigma, seeds = (value.flatten(0, 1) for value in drawn)
        images = torch.cat([view0, view1])
        noise = noise_like(images, sigma, seeds)
        network = self.backbone.network
        tokens = encode_visible(network, images + noise, masked)  # (2N, [1 +] V, D)

        h0, h1 = network.forward_head(tokens).chunk(2)
        contrast = self._keep(self.loss(self.heads(h0), self.heads(h1), return_stats=watch))

        level = self.noise_embedding(sigma.to(images))
        prediction = self.decoder(tokens, masked, level)  # (2N, L, P)
        settings = self.settings
        terms = {
            "contrast": contrast,
            "reconstruction": F.masked_reconstruction(
                prediction, settings.targets(images, self.patch), masked
            ),
            "denoising": F.noise_prediction(
                prediction, settings.targets(noise, self.patch), masked
            ),
        }
        if watch:
            self.terms = {name: term.detach() for name, term in terms.items()}
        return (
            settings.contrast_weight * terms["contrast"]
            + settings.reconstruction_weight * terms["reconstruction"]
            + settings.denoising_weight * terms["denoising"]
        )
