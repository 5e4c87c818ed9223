"""A vision transformer that sees some patches of an image: masks, encoder, fixed positions.

Shape letters: N images, L patches each, V of them visible, D width. `masked` is (N, L), True where
a patch is not seen. Visible patches keep their order, so that the mask alone says where each
belongs.
"""

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

from amcl.functional import sincos_positions
from amcl.settings import whole_number


def random_mask(n: int, tokens: int, ratio: float, generator: torch.Generator) -> torch.Tensor:
    """Draw masks of the patches of n images.

    L·(1 − ratio) patches of each image stay visible, rounded down, at least one. Rows are drawn
    one after another: n images at once have the same masks as the same images in several parts.

    Args:
        n: Number of images.
        tokens: Number L of patches of an image.
        ratio: Share of patches that are masked.
        generator: Source of randomness, on the CPU.

    Returns:
        True for masked patches, (n, L), on the CPU.

    Example:
        >>> masked = random_mask(2, 64, 0.75, torch.Generator().manual_seed(0))
        >>> masked.shape, masked.sum(dim=1)
        (torch.Size([2, 64]), tensor([48, 48]))
    """
    whole_number("tokens", tokens)
    if not 0 <= ratio < 1:
        raise ValueError(
            f"the mask ratio is the share of patches not seen, at least 0 and below 1, got "
            f"{ratio!r}: 0.75 is MAE's, 0.5 CAN's."
        )
    # 10 · (1 − 0.8) is 1.9999999999999996 in floating point, and means 2.
    visible = max(int(round(tokens * (1 - ratio), 9)), 1)
    order = torch.rand(n, tokens, generator=generator).argsort(dim=1, stable=True)
    return torch.ones(n, tokens, dtype=torch.bool).scatter_(1, order[:, :visible], False)


def visible_indices(masked: torch.Tensor) -> torch.Tensor:
    """Return the indices of the visible patches, in their order.

    Args:
        masked: True for masked patches, (N, L).

    Returns:
        Indices (N, V).

    Example:
        >>> visible_indices(torch.tensor([[True, False, False], [False, True, False]]))
        tensor([[1, 2],
                [0, 2]])
    """
    if masked.ndim != 2 or masked.dtype != torch.bool:
        raise ValueError(
            f"masks are (N, L) of bool, got {tuple(masked.shape)} of {masked.dtype}: random_mask "
            "draws them."
        )
    counts = (~masked).sum(dim=1)
    if not len(counts) or not counts[0] or (counts != counts[0]).any():
        raise ValueError(
            "every image shows the same number of patches, at least one, got "
            f"{sorted(set(counts.tolist()))}: draw masks with random_mask."
        )
    return masked.to(torch.uint8).argsort(dim=1, stable=True)[:, : int(counts[0])]


def encode_visible(network: nn.Module, images: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
    """Encode the visible patches with a timm vision transformer; masked ones never enter it.

    The result is that of `network.forward_features` for fewer tokens, so that
    `network.forward_head` of it is the feature of a partly seen image. If the mask is on the CPU,
    an accelerator does not wait for it.

    Args:
        network: A plain vision transformer of timm.
        images: Images (N, C, S, S).
        masked: True for masked patches, (N, L).

    Returns:
        Tokens (N, V, D), or (N, 1 + V, D) with the class token in front.

    Example:
        >>> from timm.models import VisionTransformer
        >>> vit = VisionTransformer(img_size=8, patch_size=4, embed_dim=8, depth=1, num_heads=2)
        >>> masked = torch.tensor([[True, False, True, False]])
        >>> encode_visible(vit, torch.randn(1, 3, 8, 8), masked).shape
        torch.Size([1, 3, 8])
    """
    vit = plain_vit(network)
    size = tuple(vit.patch_embed.img_size)
    patches = vit.patch_embed.num_patches
    if images.shape[-2:] != size or masked.shape != (len(images), patches):
        raise ValueError(
            f"this network takes images of {size} pixels and masks of {patches} patches, got "
            f"{tuple(images.shape)} and {tuple(masked.shape)}."
        )
    x = vit.patch_embed(images)
    x = x.flatten(1, -2) + vit.pos_embed[:, -patches:]  # flat already, unless sizes are dynamic
    indices = visible_indices(masked).to(x.device).unsqueeze(-1)
    x = x.gather(1, indices.expand(-1, -1, x.shape[-1]))
    if vit.cls_token is not None:
        first = vit.cls_token if vit.no_embed_class else vit.cls_token + vit.pos_embed[:, :1]
        x = torch.cat([first.expand(len(x), -1, -1), x], dim=1)
    x = vit.norm_pre(vit.pos_drop(x))
    if vit.grad_checkpointing:
        x = checkpoint_sequential(vit.blocks, len(vit.blocks), x, use_reentrant=False)
    else:
        x = vit.blocks(x)
    tokens: torch.Tensor = vit.norm(x)
    return tokens


def fix_positions(network: nn.Module) -> None:
    """Give a timm vision transformer fixed sin-cos positions that do not train, in place.

    MAE, CAN and MoCo v3 have them. The state dict keeps its keys and shapes.

    Args:
        network: A plain vision transformer of timm.

    Example:
        >>> from timm.models import VisionTransformer
        >>> vit = VisionTransformer(img_size=8, patch_size=4, embed_dim=8, depth=1, num_heads=2)
        >>> fix_positions(vit)
        >>> vit.pos_embed.shape, vit.pos_embed.requires_grad
        (torch.Size([1, 5, 8]), False)
    """
    vit = plain_vit(network)
    # With no_embed_class, timm keeps no position for the class token.
    cls_token = vit.cls_token is not None and not vit.no_embed_class
    grid = vit.patch_embed.grid_size
    positions = sincos_positions(vit.embed_dim, grid, cls_token=cls_token)
    with torch.no_grad():
        vit.pos_embed.copy_(positions.unsqueeze(0))
    vit.pos_embed.requires_grad_(False)


def init_xavier(network: nn.Module, *, separate_qkv: bool = False) -> None:
    """Initialize a timm vision transformer as MAE does, in place; positions stay.

    Linear layers and the patch embedding are uniform as Xavier's, biases 0.

    Args:
        network: A plain vision transformer of timm.
        separate_qkv: Queries, keys and values count as a layer each and the class token is nearly
            0 (MoCo v3).

    Example:
        >>> from timm.models import VisionTransformer
        >>> vit = VisionTransformer(img_size=8, patch_size=4, embed_dim=8, depth=1, num_heads=2)
        >>> init_xavier(vit)
        >>> vit.patch_embed.proj.bias.abs().sum().item()
        0.0
    """
    vit = plain_vit(network)
    for name, part in vit.named_modules():
        if isinstance(part, nn.Linear):
            thirds = part.weight.chunk(3) if separate_qkv and name.endswith("qkv") else ()
            for weight in thirds or (part.weight,):
                nn.init.xavier_uniform_(weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    nn.init.xavier_uniform_(vit.patch_embed.proj.weight.view(vit.embed_dim, -1))
    if vit.patch_embed.proj.bias is not None:
        nn.init.zeros_(vit.patch_embed.proj.bias)
    if vit.cls_token is not None:
        nn.init.normal_(vit.cls_token, std=1e-6 if separate_qkv else 0.02)


def is_vit(network: nn.Module) -> bool:
    """Return whether this is one of timm's vision transformers, plain or not.

    Args:
        network: Any module.

    Returns:
        True for a `VisionTransformer` of timm or a subclass of it.

    Example:
        >>> is_vit(nn.Linear(2, 2))
        False
    """
    return any(c.__name__ == "VisionTransformer" for c in type(network).__mro__)


def plain_vit(network: nn.Module) -> Any:
    """Return the network if tokens can be left out of it one by one, else raise an error.

    Args:
        network: Any module.

    Returns:
        The same module.

    Raises:
        ValueError: If it is no vision transformer of timm, or one that treats patches otherwise
            than one by one.

    Example:
        >>> from timm.models import VisionTransformer
        >>> vit = VisionTransformer(img_size=8, patch_size=4, embed_dim=8, depth=1, num_heads=2)
        >>> plain_vit(vit).embed_dim
        8
    """
    vit: Any = network
    kind = type(network)
    base: Any = next((c for c in kind.__mro__ if c.__name__ == "VisionTransformer"), None)
    fault = ""
    # timm is unknown in this layer; a class that embeds or runs otherwise would be run wrongly.
    if base is None or any(
        getattr(kind, part) is not getattr(base, part)
        for part in ("_pos_embed", "forward_features")
    ):
        fault = f"a {kind.__name__} is not run as timm's VisionTransformer"
    elif hasattr(vit.patch_embed, "backbone"):
        fault = "a convolutional stem shows patches their masked neighbors"
    elif vit.num_reg_tokens:
        fault = f"it has {vit.num_reg_tokens} register tokens, for which the decoder has no place"
    elif vit.pos_embed is None:
        fault = "it has no positions, without which a patch left out cannot be told from another"
    elif not isinstance(vit.patch_drop, nn.Identity):
        fault = "it drops patches itself (patch_drop_rate)"
    if fault:
        raise ValueError(
            f"this network takes neither masks nor fixed positions: {fault}. Choose a plain vision "
            "transformer: vit_tiny_patch16_224, vit_small_patch16_224, vit_base_patch16_224, …"
        )
    return vit
