"""The decoder of a masked autoencoder, and the embedding of noise levels.

Shape letters: N images, L patches each, V of them visible, D the encoder's width, P = patch²·C of
C channels.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

from amcl.functional import sincos_levels, sincos_positions
from amcl.modules.masked_vit import visible_indices
from amcl.settings import whole_number


class MaskedDecoder(nn.Module):
    """A light transformer that predicts every patch from the visible ones (MAE).

    Args:
        encoder_dim: Width D of the encoder.
        grid: Rows and columns of patches.
        patch: Side of a patch in pixels.
        channels: Number C of channels of the images.
        dim: Width of the decoder. The defaults of `dim`, `depth` and `heads` are MAE's for 224
            pixels.
        depth: Number of blocks.
        heads: Number of attention heads.

    Example:
        >>> decoder = MaskedDecoder(192, grid=(8, 8), patch=4, dim=64, depth=1, heads=4)
        >>> masked = torch.arange(64).expand(2, 64) >= 16
        >>> decoder(torch.randn(2, 1 + 16, 192), masked).shape
        torch.Size([2, 64, 48])
    """

    positions: torch.Tensor

    def __init__(
        self,
        encoder_dim: int,
        grid: tuple[int, int],
        patch: int,
        *,
        channels: int = 3,
        dim: int = 512,
        depth: int = 8,
        heads: int = 16,
    ) -> None:
        super().__init__()
        sizes = {"encoder_dim": encoder_dim, "patch": patch, "channels": channels, "dim": dim}
        for name, value in (sizes | {"depth": depth, "heads": heads}).items():
            whole_number(name, value)
        if dim % heads:
            raise ValueError(
                f"the decoder's heads share its width: {dim} is no multiple of {heads} heads."
            )
        self.embed = nn.Linear(encoder_dim, dim)
        self.mask_token = nn.Parameter(torch.empty(1, 1, dim))
        positions = sincos_positions(dim, grid, cls_token=True)
        self.register_buffer("positions", positions.unsqueeze(0), persistent=False)
        self.blocks = nn.Sequential(*(_block(dim, heads) for _ in range(depth)))
        self.grad_checkpointing = False
        """Compute the blocks again in the backward pass, to save memory."""
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.predict = nn.Linear(dim, patch**2 * channels)
        self._init_weights()

    def _init_weights(self) -> None:
        nn.init.normal_(self.mask_token, std=0.02)
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)

    def forward(
        self, tokens: torch.Tensor, masked: torch.Tensor, extra: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Predict the values of all patches.

        Args:
            tokens: Output of `encode_visible`, (N, V, D) or (N, 1 + V, D) with a class token.
            masked: True for patches that the encoder did not see, (N, L).
            extra: Added to every patch token, masked or not, before the input layer, (N, D): CAN's
                noise level.

        Returns:
            Predictions (N, L, P).
        """
        indices = visible_indices(masked)
        before = tokens.shape[1] - indices.shape[1]  # class tokens
        if before not in (0, 1) or masked.shape[1] != self.positions.shape[1] - 1:
            raise ValueError(
                f"the decoder takes masks of {self.positions.shape[1] - 1} patches and a token for "
                "each visible one, with or without a class token in front; got masks "
                f"{tuple(masked.shape)} that show {indices.shape[1]}, and tokens "
                f"{tuple(tokens.shape)}."
            )
        x = self.embed(tokens)  # (N, before + V, dim)
        first = x[:, :before]
        visible = x[:, before:]
        index = indices.to(x.device).unsqueeze(-1).expand_as(visible)
        x = self.mask_token.to(x.dtype).expand(len(x), masked.shape[1], -1)
        x = x.scatter(1, index, visible)  # (N, L, dim)
        if extra is not None:
            # Behind a linear layer it is its product with the weights, for masked patches too.
            x = x + F.linear(extra, self.embed.weight).unsqueeze(1)
        x = torch.cat([first, x], dim=1) + self.positions[:, 1 - before :]
        if self.grad_checkpointing:
            x = checkpoint_sequential(self.blocks, len(self.blocks), x, use_reentrant=False)
        else:
            x = self.blocks(x)
        predictions: torch.Tensor = self.predict(self.norm(x))
        return predictions[:, before:]


class NoiseEmbedding(nn.Module):
    """CAN's embedding of noise levels σ (N,): sin-cos, then linear, ReLU, linear.

    Args:
        dim: Width of the embedding (N, dim), that of the encoder.

    Example:
        >>> NoiseEmbedding(192)(torch.tensor([0.0, 0.05])).shape
        torch.Size([2, 192])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = whole_number("dim", dim)
        self.layers = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, sigma: torch.Tensor) -> torch.Tensor:
        """Embed noise levels.

        Args:
            sigma: Noise levels σ, (N,).

        Returns:
            Embeddings (N, dim).
        """

        embedding: torch.Tensor = self.layers(sincos_levels(sigma, self.dim))
        return embedding


def _block(dim: int, heads: int) -> nn.Module:
    return nn.TransformerEncoderLayer(
        dim,
        heads,
        dim_feedforward=4 * dim,
        dropout=0.0,
        activation="gelu",
        layer_norm_eps=1e-6,
        batch_first=True,
        norm_first=True,
    )
