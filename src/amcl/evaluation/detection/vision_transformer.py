"""Maps of a vision transformer for detection: large images, windows of attention, four quarters.

As in "Benchmarking Detection Transfer Learning with Vision Transformers" (arXiv 2111.11429),
without its relative positions, which no pre-trained network has. Shape letters: N images,
L = G·G tokens each on a grid with G a side, windows of W·W tokens, D width.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

_LARGEST = 16  # tokens a side of a window that is chosen
_SMALLEST = 4  # smaller ones would leave attention little to attend to


class VisionTransformerMaps(nn.Module):
    """The tokens of a vision transformer after each quarter of its blocks, as maps.

    It maps images (N, 3, S, S) to four maps (N, D, G, G), G = S / patch. All blocks attend within
    windows but the last of each quarter, which attends everywhere. There are no class and register
    tokens, and no last norm: the state dict of `network` is timm's without these.

    Args:
        network: A vision transformer of timm, which is changed in place.
        image_size: Side S of the images.
        window: Tokens W a side of a window; None: the largest divisor of G up to 16; 0: no windows.
        scratch: Draw fresh weights, for the larger grid.
        checkpointing: Compute blocks a second time in the backward pass, to save memory.

    Example:
        >>> from timm.models import VisionTransformer
        >>> vit = VisionTransformer(img_size=32, embed_dim=8, depth=4, num_heads=2)
        >>> maps = VisionTransformerMaps(vit, image_size=64, window=2)
        >>> [tuple(x.shape) for x in maps(torch.randn(1, 3, 64, 64))]
        [(1, 8, 4, 4), (1, 8, 4, 4), (1, 8, 4, 4), (1, 8, 4, 4)]
        >>> maps.notes[0]
        'positions of 2 × 2 tokens interpolated to 4 × 4'
    """

    def __init__(
        self,
        network: nn.Module,
        image_size: int,
        *,
        window: int | None = None,
        scratch: bool = False,
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        vit = _supported(network)
        self.notes: list[str] = []
        self.ends = quarter_ends(len(vit.blocks))
        self.image_size = image_size
        self.checkpointing = checkpointing
        self.patch = self._resize(vit, image_size)
        _remove_unused(vit)
        if scratch:
            vit.init_weights()  # interpolated noise would be smoother than fresh noise
        self.grid: int = vit.patch_embed.grid_size[0]
        self.window = window_of(self.grid, window, self.patch)
        self._attend_in_windows(vit)
        self.network = vit
        self.widths = [int(vit.embed_dim)] * 4
        self.strides = [self.patch] * 4

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        size = self.image_size
        if images.shape[-2:] != (size, size):
            raise ValueError(
                f"this detector takes images of {size} × {size} pixels, got {tuple(images.shape)}: "
                "pad or crop them to that size (--image-size)."
            )
        vit: Any = self.network
        x = vit.patch_embed(images).flatten(1, -2)  # flat already, unless sizes are dynamic
        if vit.pos_embed is not None:
            x = x + vit.pos_embed
        x = vit.norm_pre(vit.pos_drop(x))
        maps = []
        for i, block in enumerate(vit.blocks):
            if self.checkpointing and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
            if i in self.ends:
                maps.append(x.transpose(1, 2).unflatten(2, (self.grid, self.grid)))
        return maps

    def _resize(self, vit: Any, image_size: int) -> int:
        """Fit patches and positions to the images; return the pixels a side of a patch."""
        old_patch, old_grid = vit.patch_embed.patch_size[0], vit.patch_embed.grid_size[0]
        patch = power_of_two(old_patch)
        multiple = max(patch, 32)  # so that the map of stride 32 is whole
        if image_size % multiple:
            raise ValueError(
                f"image_size={image_size} is no multiple of {multiple}, which maps of strides 4 to "
                f"32 need with patches of {patch} pixels: use --image-size "
                f"{max(round(image_size / multiple), 1) * multiple}."
            )
        vit.set_input_size(img_size=(image_size, image_size), patch_size=(patch, patch))
        grid = image_size // patch
        if patch != old_patch:
            self.notes.append(f"patches of {old_patch} pixels resampled to {patch}")
        if vit.pos_embed is not None and grid != old_grid:
            self.notes.append(
                f"positions of {old_grid} × {old_grid} tokens interpolated to {grid} × {grid}"
            )
        return patch

    def _attend_in_windows(self, vit: Any) -> None:
        if self.window in (0, self.grid):
            self.notes.append("attention is global in all blocks")
            return
        windows = Windows(self.grid, self.window)
        for i, block in enumerate(vit.blocks):
            if i not in self.ends:
                for attention in _attentions(block):
                    # A module around it would rename its weights, and windows around the whole
                    # block would skip it in some windows of an image and not in others.
                    attention.register_forward_pre_hook(windows.before)
                    attention.register_forward_hook(windows.after)
        self.notes.append(
            f"attention in windows of {self.window} × {self.window} tokens, global in blocks "
            + ", ".join(str(i + 1) for i in self.ends)
        )


@dataclass(frozen=True)
class Windows:
    """Hooks that let an attention layer see the tokens of a window at a time."""

    grid: int
    """Tokens G a side of the image."""
    window: int
    """Tokens W a side of a window, a divisor of G."""

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Give the layer windows instead of images."""
        return (split_windows(args[0], self.grid, self.window), *args[1:])

    def after(self, module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
        """Make images of the windows that the layer gave."""
        return join_windows(output, self.grid, self.window)


def split_windows(tokens: torch.Tensor, grid: int, window: int) -> torch.Tensor:
    """Cut the tokens of images into windows that do not overlap, in the order of reading.

    Args:
        tokens: Tokens (N, G·G, D).
        grid: Tokens G a side of an image.
        window: Tokens W a side of a window, a divisor of G.

    Returns:
        Tokens (N·(G/W)², W·W, D).

    Example:
        >>> split_windows(torch.arange(16).view(1, 16, 1), 4, 2)[1].flatten()
        tensor([2, 3, 6, 7])
    """
    n = grid // window
    x = tokens.view(-1, n, window, n, window, tokens.shape[-1]).transpose(2, 3)
    return x.flatten(3, 4).flatten(0, 2)


def join_windows(windows: torch.Tensor, grid: int, window: int) -> torch.Tensor:
    """Undo `split_windows`.

    Args:
        windows: Tokens (N·(G/W)², W·W, D).
        grid: Tokens G a side of an image.
        window: Tokens W a side of a window.

    Returns:
        Tokens (N, G·G, D).

    Example:
        >>> tokens = torch.randn(3, 16, 5)
        >>> torch.equal(join_windows(split_windows(tokens, 4, 2), 4, 2), tokens)
        True
    """
    n = grid // window
    x = windows.view(-1, n, n, window, window, windows.shape[-1]).transpose(2, 3)
    return x.flatten(1, 4)


def quarter_ends(depth: int) -> list[int]:
    """Return the index of the last block of each quarter.

    Args:
        depth: Number of blocks, at least 4.

    Returns:
        Four indices, ⌈depth · i / 4⌉ − 1.

    Example:
        >>> quarter_ends(12), quarter_ends(6)
        ([2, 5, 8, 11], [1, 2, 4, 5])
    """
    if depth < 4:
        raise ValueError(
            f"the four maps of a detector are taken after each quarter of the blocks, and this "
            f"vision transformer has {depth}: choose one with 4 or more."
        )
    return [math.ceil(depth * i / 4) - 1 for i in range(1, 5)]


def window_of(grid: int, window: int | None, patch: int) -> int:
    """Return the tokens a side of the windows, or raise an error if they do not fit the grid.

    Args:
        grid: Tokens a side of the image.
        window: The setting: None chooses the largest divisor of the grid up to 16, or the next
            one if that is below 4; 0 is no windows.
        patch: Pixels a side of a patch, for errors.

    Returns:
        Tokens a side of a window; 0 for no windows.

    Example:
        >>> window_of(64, None, 16), window_of(20, None, 16), window_of(34, None, 16)
        (16, 10, 17)
    """
    divisors = [w for w in range(1, grid + 1) if grid % w == 0]
    if window is None:
        chosen = max(w for w in divisors if w <= _LARGEST)
        # Of 34 tokens a side, 17 are better than 2.
        return (
            chosen if chosen >= _SMALLEST else min(w for w in divisors if w >= min(_SMALLEST, grid))
        )
    if window and window not in divisors:
        better = max(round(grid / window), 1) * window * patch
        size = f", or --image-size {better}" if better % 32 == 0 else ""
        raise ValueError(
            f"images of {grid * patch} pixels have {grid} × {grid} tokens, which cannot be cut "
            f"into windows of {window} × {window}: use --window with one of "
            f"{', '.join(map(str, divisors))}, 0 for none{size}."
        )
    return window


def power_of_two(patch: int) -> int:
    """Return the power of two nearest to the side of a patch, by ratio.

    Args:
        patch: Pixels a side.

    Returns:
        The power of two; the larger of two that are equally near.

    Example:
        >>> power_of_two(14), power_of_two(16), power_of_two(5)
        (16, 16, 4)
    """
    return int(2 ** math.floor(math.log2(patch) + 0.5))


def _supported(network: nn.Module) -> Any:
    """Return the network if it can be run here as timm runs it, else raise an error."""
    from timm.models.vision_transformer import VisionTransformer

    vit: Any = network
    kind = type(network)
    fault = ""
    if not isinstance(network, VisionTransformer) or any(
        getattr(kind, part) is not getattr(VisionTransformer, part)
        for part in ("_pos_embed", "forward_features")
    ):
        fault = f"a {kind.__name__} is not run as timm's VisionTransformer"
    elif hasattr(vit.patch_embed, "backbone"):
        fault = "its patches come from a convolutional network"
    elif not all(_attentions(block) for block in vit.blocks):
        fault = f"windows of attention are not known for a {type(vit.blocks[0]).__name__}"
    if fault:
        raise ValueError(
            f"this network gives a detector no maps: {fault}. Choose a plain vision transformer, "
            "such as vit_small_patch16_224, or a convolutional network, such as resnet50."
        )
    return vit


def _attentions(block: nn.Module) -> list[nn.Module]:
    """Return the attention layers of a block, which timm calls attn."""
    return [m for name, m in block.named_modules() if name.rpartition(".")[2] == "attn"]


def _remove_unused(vit: Any) -> None:
    """Remove what maps do not need: parameters without gradients stop distributed training."""
    if vit.pos_embed is not None:
        patches = vit.pos_embed.detach()[:, -vit.patch_embed.num_patches :]
        # A clone would keep the strides of the longer tensor, of which DDP warns.
        vit.pos_embed = nn.Parameter(patches.clone(memory_format=torch.contiguous_format))
    vit.cls_token = vit.reg_token = vit.attn_pool = None
    for name in ("norm", "fc_norm", "head_drop", "head"):
        setattr(vit, name, nn.Identity())
