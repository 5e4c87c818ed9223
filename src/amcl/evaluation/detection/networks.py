"""Mask R-CNN and Faster R-CNN of torchvision around any backbone, and their parameter groups."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import torch
from torch import nn

from amcl.backbones import Backbone, BackboneSettings, own_randomness
from amcl.evaluation.detection.body import pyramid_backbone
from amcl.evaluation.detection.detector_settings import DetectorSettings
from amcl.evaluation.finetuning.classifier import seeded
from amcl.settings import whole_number
from amcl.text_files import require

__all__ = [
    "DetectorSettings",
    "detector",
    "detector_metadata",
    "detector_of",
    "parameter_groups",
]

_NOT_SYNCHRONIZED = (
    "each process has its own statistics of batch norm: they are synchronized on GPUs"
)


def detector(
    backbone: nn.Module,
    num_classes: int,
    settings: DetectorSettings,
    *,
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    masks: bool,
    scratch: bool = False,
    images_per_step: int = 1,
    processes: int = 1,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> tuple[nn.Module, list[str]]:
    """Return a detector of torchvision that starts from a backbone, and what was chosen for it.

    Args:
        backbone: An `amcl.backbones.Backbone`, which is left as it is.
        num_classes: Number of classes of objects; the background is none of them.
        settings: Settings of the detector.
        image_size: Pixels a side of training images. The longest side of others is scaled to it.
        mean: Mean of the channels, for images in [0, 1].
        std: Standard deviation of the channels.
        masks: Predict masks, too (Mask R-CNN); else boxes alone (Faster R-CNN).
        scratch: Take fresh weights instead of those of the backbone.
        images_per_step: Images of a training step, in all processes together.
        processes: Number of processes that train together.
        device: Device that it will train on, for the kind of batch norm; it is made on the CPU.
        seed: Fresh weights follow from it.

    Returns:
        The detector, in training mode, and notes for the log.

    Example:
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        >>> model, notes = detector(
        ...     backbone,
        ...     3,
        ...     DetectorSettings(channels=32),
        ...     image_size=64,
        ...     mean=(0.5, 0.5, 0.5),
        ...     std=(0.25, 0.25, 0.25),
        ...     masks=True,
        ... )
        >>> sorted(model.eval()([torch.rand(3, 48, 64)])[0])
        ['boxes', 'labels', 'masks', 'scores']
        >>> notes[-1]
        'batch norm of the backbone is frozen: statistics of fewer than 16 images a step are noise'
    """
    from amcl.evaluation.detection.heads import region_cnn  # torchvision takes a second

    whole_number("num_classes", num_classes, "the background is not counted")
    whole_number("image_size", image_size, "it is in pixels")
    if not isinstance(backbone, Backbone):
        raise ValueError(
            f"a detector needs the maps of a network that is known, and a "
            f"{type(backbone).__name__} is not: give an amcl.backbones.Backbone."
        )
    synchronized = torch.device(device).type == "cuda"  # SyncBatchNorm runs on GPUs alone
    norm_images = images_per_step if synchronized else images_per_step // processes
    settings = settings.for_images(image_size)
    with seeded(seed, "detector"):
        settings, notes, body = pyramid_backbone(
            backbone, settings, image_size, scratch, norm_images
        )
        body.metadata = {
            **backbone.metadata(),
            "mean": [float(value) for value in mean],
            "std": [float(value) for value in std],
            "detector": settings.metadata(),
            "detector_image_size": image_size,
            "num_classes": num_classes,
            "masks": masks,
        }
        model = region_cnn(body, settings)
    if processes > 1 and any(isinstance(m, nn.BatchNorm2d) for m in model.modules()):
        model, note = _synchronized(model) if synchronized else (model, _NOT_SYNCHRONIZED)
        notes.append(note)
    return model, notes


def _synchronized(model: nn.Module) -> tuple[nn.Module, str]:
    """Return the model with batch norm over all processes, and a note on it."""
    from timm.layers import convert_sync_batchnorm  # type: ignore[attr-defined]

    converted: nn.Module = convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
    return converted, "batch norm is synchronized over processes"


def detector_metadata(model: nn.Module) -> dict[str, Any]:
    """Return what is needed to make a detector again, in values that JSON has.

    Args:
        model: A detector that `detector` returned.

    Returns:
        Backbone, normalization, settings in which nothing is "auto", image size and classes.
    """
    body: Any = model.backbone
    return dict(body.metadata)


def detector_of(
    metadata: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], where: object
) -> nn.Module:
    """Return the detector that a file's metadata describes, with its weights.

    Args:
        metadata: What `detector_metadata` returned.
        tensors: Its state dict.
        where: The file, for errors.

    Returns:
        The detector in evaluation mode.

    Example:
        >>> settings = BackboneSettings(name="resnet10t", width=0.25)
        >>> sizes = {"image_size": 64, "mean": (0.5,) * 3, "std": (0.25,) * 3}
        >>> model, _ = detector(
        ...     Backbone(settings, 32), 3, DetectorSettings(channels=32), masks=False, **sizes
        ... )
        >>> again = detector_of(
        ...     detector_metadata(model), model.state_dict(), "detector.safetensors"
        ... )
        >>> again.training
        False
    """
    require(metadata, _Metadata, f"the metadata of {where}")
    try:
        settings = DetectorSettings.from_metadata(metadata["detector"])
        _check_size(metadata, settings, tensors)
        with own_randomness():
            backbone = Backbone(BackboneSettings.from_metadata(metadata), metadata["image_size"])
        model, _ = detector(
            backbone,
            metadata["num_classes"],
            settings,
            image_size=metadata["detector_image_size"],
            mean=metadata["mean"],
            std=metadata["std"],
            masks=metadata["masks"],
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"the metadata of {where} describe no detector: {error}") from None
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(
            f"the weights in {where} are not those of the detector that its metadata describe: "
            f"{' '.join(str(error).split()):.300}"
        ) from None
    return model.eval()


def _check_size(
    metadata: Mapping[str, Any], settings: DetectorSettings, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Raise an error if a file holds fewer numbers than the heads alone would have.

    Otherwise a few bytes of metadata could take all memory.
    """
    channels = settings.for_images(metadata["detector_image_size"]).channels or 1
    width = 64 * metadata["width"]  # of the widest layer, at least
    classes = metadata["num_classes"]
    least = 4 * 49 * channels * channels + 4 * channels * classes + width * width
    held = sum(tensor.numel() for tensor in tensors.values())
    if least > held:
        raise ValueError(
            f"{channels} channels, {classes} classes and a width of {metadata['width']:g} need "
            f"more than the {held:,} numbers that the file holds."
        )


def parameter_groups(
    model: nn.Module, weight_decay: float, layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """Return parameters by depth, with their `lr_scale`: 1 above the backbone, × layer_decay below.

    Biases, norms and what the network names (positions) have no weight decay.

    Args:
        model: A detector that `detector` returned.
        weight_decay: Weight decay of the others.
        layer_decay: A layer of the backbone learns at this share of the rate of the one above.

    Returns:
        Groups for an optimizer, of all parameters that are trained.

    Example:
        >>> backbone = Backbone(BackboneSettings(name="test_vit"), image_size=32)
        >>> sizes = {"image_size": 64, "mean": (0.5,) * 3, "std": (0.25,) * 3}
        >>> model, _ = detector(backbone, 3, DetectorSettings(), masks=False, **sizes)
        >>> sorted({group["lr_scale"] for group in parameter_groups(model, 0.1, 0.5)})[-3:]
        [0.25, 0.5, 1.0]
    """
    from timm.models import group_parameters

    prefix = "backbone.maps.network."
    network: Any = model.get_submodule(prefix.removesuffix("."))
    named: set[str] = getattr(network, "no_weight_decay", set)()
    depths: dict[str, int] = {}
    if layer_decay != 1:
        # A dict of layers by parameter, because it is reversed.
        depths = group_parameters(network, network.group_matcher(coarse=False), reverse=True)
    above = 1 + max(depths.values(), default=0)
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        own = name.removeprefix(prefix)
        scale = layer_decay ** (above - depths[own]) if own in depths else 1.0
        spared = parameter.ndim <= 1 or name.endswith(".bias") or own in named
        decay = 0.0 if spared else weight_decay
        group = {"lr_scale": scale, "weight_decay": decay, "params": []}
        groups.setdefault((scale, decay), group)["params"].append(parameter)
    return list(groups.values())


class _Metadata(TypedDict):
    """What a file says of the detector that it holds; it says more of the backbone."""

    backbone: str
    width: float
    stem: str
    image_size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    detector: dict[str, Any]
    detector_image_size: int
    num_classes: int
    masks: bool
