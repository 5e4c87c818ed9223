"""Masks, a decoder and its targets, which MAE and CAN share."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from amcl import functional as F
from amcl.backbones import Backbone
from amcl.methods.base import Drawn, MethodSettings
from amcl.modules import MaskedDecoder, plain_vit, random_mask
from amcl.settings import whole_number

_SEEDS = 2**62


@dataclass(frozen=True, kw_only=True)
class MaskedSettings(MethodSettings):
    """Masks, and the decoder that fills them in. The backbone is a plain vision transformer."""

    network: ClassVar[Literal["resnet", "vit"]] = "vit"

    mask_ratio: float = 0.75
    """The share of patches that the backbone does not see."""
    decoder_dim: int = 512
    """Width of the decoder."""
    decoder_depth: int = 8
    """Blocks of the decoder."""
    decoder_heads: int = 16
    """Attention heads of the decoder."""
    normalize_targets: bool = True
    """Predict each patch less its mean, over its standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mask_ratio < 1:
            raise ValueError(
                f"mask_ratio must lie between 0 and 1, got {self.mask_ratio}: it is the share of "
                "patches not seen, 0.75 in MAE and 0.5 in CAN."
            )
        for name in ("decoder_dim", "decoder_depth", "decoder_heads"):
            whole_number(name, getattr(self, name))
        if self.decoder_dim % 4 or self.decoder_dim % self.decoder_heads:
            raise ValueError(
                f"decoder_dim={self.decoder_dim} must be a multiple of 4 and of "
                f"decoder_heads={self.decoder_heads}: use {4 * self.decoder_heads} or a multiple."
            )

    def facts(self) -> list[tuple[str, str]]:
        return [*super().facts(), ("masked", f"{self.mask_ratio:.0%} of the patches")]

    def make_decoder(self, backbone: Backbone) -> MaskedDecoder:
        """Make the decoder of these settings.

        Args:
            backbone: A backbone that is a plain vision transformer.

        Returns:
            The decoder for its width, grid and patches.
        """
        vit = plain_vit(backbone.network)
        if any(True for _ in vit.fc_norm.parameters()):
            raise ValueError(
                f"{backbone.settings.name!r} has its last norm behind the pooling, so that a "
                "decoder would read tokens without one: choose a network such as "
                "vit_tiny_patch16_224."
            )
        if vit.patch_embed.num_patches < 2:
            raise ValueError(
                f"{backbone.settings.name!r} sees images of {backbone.image_size} pixels as "
                "one patch, which cannot be masked in part: use smaller patches (--patch)."
            )
        return MaskedDecoder(
            vit.embed_dim,
            vit.patch_embed.grid_size,
            patch_of(backbone),
            channels=vit.patch_embed.proj.in_channels,
            dim=self.decoder_dim,
            depth=self.decoder_depth,
            heads=self.decoder_heads,
        )

    def targets(self, images: torch.Tensor, patch: int) -> torch.Tensor:
        """Return the values to predict.

        Args:
            images: Images (N, C, S, S), or their noise.
            patch: Side of a patch in pixels.

        Returns:
            Patches (N, L, P).
        """
        patches = F.patchify(images, patch)
        return F.normalized_patches(patches) if self.normalize_targets else patches

    def draw(
        self,
        views: int,
        n: int,
        backbone: Backbone,
        generator: torch.Generator,
        noise: float = 0.0,
    ) -> Drawn:
        """Draw masks and noise levels.

        Args:
            views: Number V of views.
            n: Number of images.
            backbone: The backbone, which has L patches.
            generator: Source of randomness, on the CPU.
            noise: Greatest σ; each is uniform from 0 to it.

        Returns:
            The random numbers of all views.
        """
        tokens = backbone.network.patch_embed.num_patches
        masks = [random_mask(n, tokens, self.mask_ratio, generator) for _ in range(views)]
        sigma = noise * torch.rand(views, n, generator=generator)
        seeds = torch.randint(_SEEDS, (views, n), generator=generator)
        return Drawn(torch.stack(masks), sigma, seeds)


def patch_of(backbone: Backbone) -> int:
    """Return the side in pixels of the patches that a vision transformer sees."""
    side: int = plain_vit(backbone.network).patch_embed.patch_size[0]
    return side


def noise_like(images: torch.Tensor, sigma: torch.Tensor, seeds: torch.Tensor) -> torch.Tensor:
    """Draw Gaussian noise for images.

    The noise of an image follows from its seed alone, whatever batch or process it is in.

    Args:
        images: Images (N, C, S, S).
        sigma: σ of the noise of each image, (N,).
        seeds: Seed of each image, (N,).

    Returns:
        Noise of the shape of the images.
    """
    noise = torch.empty_like(images)
    if images.is_meta:  # shapes alone, which no generator is for
        return noise
    generator = torch.Generator(images.device)
    for image, seed in zip(noise, seeds.tolist(), strict=True):
        image.normal_(generator=generator.manual_seed(seed))
    return noise.mul_(sigma.to(noise).view(-1, 1, 1, 1))
