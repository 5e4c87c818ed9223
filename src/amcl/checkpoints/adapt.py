"""Weights of one geometry for a network of another: patches, positions, channels of the input."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

Table = dict[str, torch.Tensor]
"""Tensors by name, such as a state dict."""

_PATCHES = "patch_embed.proj.weight"
_POSITIONS = "pos_embed"


def adapted(
    tensors: Mapping[str, torch.Tensor], network: nn.Module, where: object
) -> tuple[Table, list[str]]:
    """Return weights resampled by timm's functions to the input of a network.

    Patch embeddings, position embeddings and the channels of the first layer change; whatever else
    does not fit is left as it is, for `Backbone.load` to refuse.

    Args:
        tensors: Weights by name, with timm's keys.
        network: A network of timm, which has the shapes that are wanted.
        where: Origin of the weights, for errors.

    Returns:
        The weights, and a note on each that was changed.

    Example:
        >>> import timm
        >>> small, large = (timm.create_model("test_vit", img_size=size) for size in (32, 64))
        >>> tensors, notes = adapted(small.state_dict(), large, "a file")
        >>> tensors["pos_embed"].shape == large.pos_embed.shape, notes
        (True, ['position embeddings resampled from 2×2 to 4×4 patches'])
    """
    wanted = network.state_dict()
    result = dict(tensors)
    notes: list[str] = []
    for key in _first_layers(network):
        if key in result and key in wanted:
            _adapt_channels(result, key, wanted[key], where, notes)
    if _PATCHES in result and _PATCHES in wanted:
        _adapt_patches(result, wanted[_PATCHES], notes)
    if _POSITIONS in result and _POSITIONS in wanted:
        _adapt_positions(result, network, wanted[_POSITIONS], where, notes)
    return result, notes


def input_channels(model: str, tables: Mapping[str, Table]) -> int | None:
    """Return the number of channels of the images that weights in a file are for.

    Args:
        model: Name of the timm model that they are of.
        tables: Tensors of the file, in tables.

    Returns:
        The number; None where no table has a first layer of this model.

    Example:
        >>> input_channels("resnet18", {"": {"module.conv1.weight": torch.zeros(64, 13, 7, 7)}})
        13
    """
    import timm

    if not timm.is_model(model.partition(".")[0]):
        return None
    with torch.device("meta"):
        keys = tuple(_first_layers(timm.create_model(model.partition(".")[0])))
    for table in tables.values():
        for name, tensor in table.items():
            if tensor.ndim == 4 and (name in keys or name.endswith(tuple(f".{k}" for k in keys))):
                return tensor.shape[1]
    return None


def _first_layers(network: Any) -> list[str]:
    """Return the keys of the layers that see the image."""
    names = getattr(network, "pretrained_cfg", {}).get("first_conv") or ()
    names = (names,) if isinstance(names, str) else tuple(names)
    # A small stem is a single layer in the place of several.
    return [f"{each}.weight" for name in names for each in (name, name.rpartition(".")[0]) if each]


def _adapt_channels(
    tensors: Table, key: str, wanted: torch.Tensor, where: object, notes: list[str]
) -> None:
    from timm.models import adapt_input_conv

    weight = tensors[key]
    if weight.ndim != 4 or wanted.ndim != 4 or weight.shape[1] == wanted.shape[1]:
        return
    given, channels = weight.shape[1], wanted.shape[1]
    if given != 3:
        raise ValueError(
            f"the first layer in {where}, {key}, takes {given} channels, and this network takes "
            f"{channels}: weights are adapted from 3 channels to others, and not the other way. "
            f"Use images of {given} channels (--channels {given}), or other weights."
        )
    tensors[key] = adapt_input_conv(channels, weight)
    how = "their sum" if channels == 1 else "the three in turn, scaled"
    notes.append(f"the first layer takes {channels} channels instead of {given}: {how}")


def _adapt_patches(tensors: Table, wanted: torch.Tensor, notes: list[str]) -> None:
    from timm.layers.patch_embed import resample_patch_embed

    weight = tensors[_PATCHES]
    if weight.ndim != 4 or wanted.ndim != 4 or weight.shape[2:] == wanted.shape[2:]:
        return
    tensors[_PATCHES] = resample_patch_embed(weight, list(wanted.shape[2:]))
    sizes = " to ".join(f"{w.shape[-2]}×{w.shape[-1]}" for w in (weight, wanted))
    notes.append(f"patch embeddings resampled from {sizes} pixels")


def _adapt_positions(
    tensors: Table, network: Any, wanted: torch.Tensor, where: object, notes: list[str]
) -> None:
    from timm.layers.pos_embed import resample_abs_pos_embed

    positions = tensors[_POSITIONS]
    grid = getattr(getattr(network, "patch_embed", None), "grid_size", None)
    if grid is None or positions.ndim != 3 or positions.shape[1] == wanted.shape[1]:
        return
    others = wanted.shape[1] - grid[0] * grid[1]  # class token and registers, where they have some
    count = positions.shape[1] - others
    side = math.isqrt(max(count, 0))
    if side * side != count or not count:
        raise ValueError(
            f"the position embeddings in {where} are {positions.shape[1]}, {others} of them "
            "not of patches: the rest is no square grid, and cannot be resampled. Use the image "
            "size and patches of these weights (--image-size, --patch)."
        )
    tensors[_POSITIONS] = resample_abs_pos_embed(
        positions, list(grid), [side, side], num_prefix_tokens=others
    )
    notes.append(f"position embeddings resampled from {side}×{side} to {grid[0]}×{grid[1]} patches")
