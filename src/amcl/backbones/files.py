"""Backbones in files."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch

from amcl.backbones.backbone import Backbone
from amcl.backbones.randomness import own_randomness
from amcl.backbones.settings import BackboneSettings
from amcl.tensor_files import read_metadata, read_safetensors
from amcl.text_files import require


def load_backbone(path: str | os.PathLike[str]) -> Backbone:
    """Load a trained backbone.

    Args:
        path: A run folder, or its `backbone.safetensors`.

    Returns:
        The backbone in evaluation mode; its `normalization` has the mean and std of the channels
        that it was trained with.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}.")
    if file.is_dir():
        file = file / "backbone.safetensors"
    if file.suffix != ".safetensors":
        raise ValueError(
            f"{file} is no backbone: give a run folder or its backbone.safetensors; `amcl export "
            "CHECKPOINT --out FOLDER` makes one of a checkpoint."
        )
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}: a run leaves its backbone there when it ends; `amcl pretrain "
            f"--resume {file.parent}` finishes one that was stopped."
        )
    tensors, metadata = read_safetensors(file)
    if metadata is None:
        raise ValueError(f"{file} was not written by amcl: it does not say which network it holds.")
    return backbone_of(metadata, tensors, file)


def backbone_of(
    metadata: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], where: object
) -> Backbone:
    """Return the backbone that a file's metadata describes, with its weights.

    Args:
        metadata: Network, image size and normalization, as `read_metadata` returns them.
        tensors: Weights by name.
        where: The file, for errors.

    Returns:
        The backbone in evaluation mode.
    """
    require(metadata, _Metadata, f"the metadata of {where}")
    try:
        settings = BackboneSettings.from_metadata(metadata)
        channels = len(metadata["mean"])
        if metadata.get("channels", channels) != channels or len(metadata["std"]) != channels:
            raise ValueError("channels, mean and std are not of one number of channels.")
        with own_randomness():
            backbone = Backbone(settings, metadata["image_size"], channels=channels)
    except ValueError as error:
        raise ValueError(f"the metadata of {where} describe no network: {error}") from None
    backbone.load(tensors, where)
    backbone.normalization = (tuple(metadata["mean"]), tuple(metadata["std"]))
    return backbone.eval()


def stored_input(file: Path) -> tuple[int, int] | None:
    """Return the channels, and the pixels a side, of the images that a stored backbone takes.

    Args:
        file: File of the backbone.

    Returns:
        Channels and side; None if the file was not written by amcl.

    Example:
        >>> stored_input(Path("run/backbone.safetensors"))  # doctest: +SKIP
        (3, 32)
    """
    metadata = read_metadata(file)
    if metadata is None:
        return None
    require(metadata, _Metadata, f"the metadata of {file}")
    return len(metadata["mean"]), int(metadata["image_size"])


class _Metadata(TypedDict):
    """What a file says of the backbone that it holds; it may say more."""

    backbone: str
    width: float
    stem: str
    patch: NotRequired[int | None]
    pool: NotRequired[str]
    image_size: int
    channels: NotRequired[int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
