"""Backbones by what a user names: a run, a checkpoint, a file, published weights, a model."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from amcl.backbones import (
    Backbone,
    BackboneSettings,
    Pool,
    Stem,
    backbone_of,
    own_randomness,
    unknown_model,
)
from amcl.checkpoints.adapt import Table, adapted, input_channels
from amcl.checkpoints.files import read_safely
from amcl.checkpoints.loaded_model import AS_BEFORE, AS_IMAGENET, LoadedModel
from amcl.checkpoints.method import (
    SavedMethod,
    from_checkpoint,
    from_tensors,
    no_backbone,
)
from amcl.checkpoints.published import (
    CONFIG,
    FORMS,
    SOURCES,
    WEIGHTS,
    Published,
    Repository,
    image_size_of,
    is_published,
    network_of,
    normalization_of,
    of_repository,
    of_timm,
    of_torchvision,
)
from amcl.checkpoints.run_folder import RunFolder
from amcl.checkpoints.weights import load_weights, tables_of
from amcl.data.images import PerChannel
from amcl.files import expand_home
from amcl.pretrained import checked_weights, names, pretrained_model
from amcl.pretrained.index import similar
from amcl.seeds import seed_of
from amcl.settings import finite_number, non_negative, positive_number
from amcl.tensor_files import read_safetensors
from amcl.views import IMAGENET_MEAN, IMAGENET_STD

ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".tar")


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `open_model`, for models that do not describe themselves."""

    backbone: str | None = None
    width: float = 1.0
    stem: Stem = "auto"
    patch: int | None = None
    pool: Pool = "auto"
    image_size: int | None = None
    mean: PerChannel | None = None
    std: PerChannel | None = None
    prefix: str | None = None
    pretrained: bool = False
    adapt: bool = False
    """Resample weights of others for other patches, positions or channels."""

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std go together: give both or neither.")
        if self.mean is not None and self.std is not None and len(self.mean) != len(self.std):
            raise ValueError(
                f"mean has {len(self.mean)} numbers and std has {len(self.std)}: give one for each "
                "channel of the images in both."
            )

    @property
    def channels(self) -> int:
        """Number of channels of the images: as many as there are means, by default 3."""
        return 3 if self.mean is None else len(self.mean)

    def refuse(self, source: object, reason: str, *names: str) -> None:
        """Raise an error if any of the options `names` is set; of all options without names."""
        used = [
            f.name
            for f in fields(self)
            if (not names or f.name in names) and getattr(self, f.name) != f.default
        ]
        if used:
            raise ValueError(f"{source} {reason}: leave out {', '.join(used)}.")


class UndescribedError(ValueError):
    """A file of weights does not say which network it holds, and nobody else does."""


def load(source: str | os.PathLike[str]) -> Backbone:
    """Return the trained backbone of a run folder, a checkpoint, an exported file, or by its name.

    Args:
        source: The folder or file, a model that comes with amcl (`amcl models` lists them), or
            published weights, such as `timm:resnet18`. A timm model by its name alone has random
            weights, with a warning; `open_model` takes more options.

    Returns:
        A module that turns images (N, C, S, S) of its `channels` into features (N, D). Its
        `normalization` is the mean and std of each channel to normalize images with.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from amcl.checkpoints.export import export
        >>> model = open_model("resnet18", width=0.125, image_size=32)
        >>> with TemporaryDirectory() as folder:
        ...     files = export(model, Path(folder))
        ...     backbone = load(Path(folder) / "backbone.safetensors")
        >>> backbone.dim, backbone.image_size
        (64, 32)
        >>> backbone = load("cifar10-resnet10-simclr-amcl")
        >>> backbone.dim, backbone.image_size
        (128, 32)
    """
    model = open_model(os.fspath(source))
    if model.untrained:
        warnings.warn(
            f"{model.name!r} is a timm model and no trained file: its weights are random. "
            f"amcl.load({f'timm:{model.name}'!r}) fetches timm's.",
            stacklevel=2,
        )
    return model.backbone


def open_model(
    source: str | Path,
    *,
    backbone: str | None = None,
    width: float = 1.0,
    stem: Stem = "auto",
    patch: int | None = None,
    pool: Pool = "auto",
    image_size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    prefix: str | None = None,
    pretrained: bool = False,
    seed: int = 0,
) -> LoadedModel:
    """Return the backbone that `source` names, ready to use.

    - A run folder, one of its checkpoints, or a `.safetensors` file of amcl: these describe
      themselves and take no options.
    - Weights of other tools (.safetensors, .pt, .pth, .bin, .ckpt, .tar): `backbone` names the
      timm model, with `width`, `stem`, `patch` and `pool` as in pre-training. The weights are found
      in the file, whatever stands before their keys; `prefix` chooses where there are several.
    - A model that comes with amcl, by a name that `amcl models` lists: its file is compared with
      its checksum, and it takes no options.
    - Published weights: `timm:NAME` for timm's, `hf:OWNER/NAME` for those of the Hugging Face hub
      in timm's layout (as `hf-hub:`; `local-dir:FOLDER` for a folder of the same files),
      `torchvision:NAME`. With `image_size` or `patch` they are adapted, and a note says so.
    - A timm model by name: random weights that follow from `seed`, or timm's with `pretrained`.

    Files are read without running code in them.

    Args:
        source: A folder, a file, a model that comes with amcl, published weights, or a timm model.
        backbone: Name of the timm model whose weights a file holds.
        width: Factor of all widths of the network.
        stem: Stem of the network, as in `BackboneSettings`.
        patch: Pixels a side of the patches of a vision transformer.
        pool: Pooling of a vision transformer.
        image_size: Pixels a side of the images; None for that of the timm model.
        mean: Means of the channels that images are normalized with; None for ImageNet's. There
            are as many channels as means: a network of other than 3 is made so, and published
            weights are adapted to it.
        std: Standard deviations of the channels; None for ImageNet's.
        prefix: Prefix of the keys of the weights, where a file holds the network several times.
        pretrained: Take the weights that timm has for the model, as `timm:` does.
        seed: Seed of random weights.

    Returns:
        The backbone with its normalization, its run and notes on choices made for the user.

    Example:
        >>> model = open_model("resnet18", width=0.25, image_size=32)
        >>> model.backbone.dim
        128
        >>> model.notes
        ('untrained: random weights (seed 0)', 'images are normalized as ImageNet')
    """
    options = _Options(
        backbone=backbone,
        width=width,
        stem=stem,
        patch=patch,
        pool=pool,
        image_size=image_size,
        mean=_per_channel("mean", mean),
        std=_per_channel("std", std),
        prefix=prefix,
        pretrained=pretrained,
    )
    return _open(str(source), options, seed)


def open_start(
    source: str | Path, settings: BackboneSettings | None = None, image_size: int | None = None
) -> LoadedModel:
    """Return the backbone that a run is to start from, which `source` names as in `open_model`.

    Args:
        source: A folder, a file, or published weights.
        settings: The network, for files that do not say which one they hold; their weights are
            adapted to it. Others are as they say.
        image_size: Pixels a side of the images, for the same files.

    Returns:
        The backbone.
    """
    name = str(source)
    try:
        model = _open(name, _Options(), 0)
    except UndescribedError:
        if settings is None:
            raise
        network = settings.metadata() | {"image_size": image_size}
        return _open(name, _Options(**network, adapt=True), 0)
    if model.untrained:
        raise ValueError(
            f"{name!r} is a timm model without weights: timm:{name} takes those of timm. A run "
            f"starts from a run folder, a checkpoint, a file of weights, a model of `amcl models`, "
            f"{FORMS}."
        )
    return model


def _open(name: str, options: _Options, seed: int) -> LoadedModel:
    """Return the model that a name and its options describe."""
    import timm

    path = expand_home(name)
    # Files and folders come before timm's names: a run is never taken for an untrained network.
    if name and path.is_dir():
        if (path / CONFIG).is_file() and not RunFolder(path).config.is_file():
            return _of_repository(name, Repository(name, path), options)
        options.refuse(name, "says itself what it holds")
        return _of_folder(name, RunFolder(path))
    if path.is_file():
        return _of_file(name, path, options)
    if is_published(name):
        return _of_hub(name, options)
    if name in names():
        return _of_pretrained(name, options)
    if timm.is_model(name):
        return _of_timm(name, options, seed)
    if len(Path(name).parts) != 1 or path.suffix in ENDINGS or not name:
        raise FileNotFoundError(f"there is no file or folder {name!r}.")
    if ":" in name:
        raise ValueError(
            f"there is no file or folder {name!r}, and {name.partition(':')[0]!r} is none of "
            f"{', '.join(SOURCES)}: published weights are {FORMS}."
        )
    if near := similar(name):
        raise ValueError(
            f"there is no file or folder {name!r}, and no model that comes with amcl is called so: "
            f"did you mean {', '.join(near)}?"
        )
    raise ValueError(f"there is no file or folder {name!r}, and {unknown_model(name)}")


def _of_pretrained(name: str, options: _Options) -> LoadedModel:
    """Return a model that comes with amcl."""
    model = _of_file(name, checked_weights(name), options)
    trained_on = pretrained_model(name).notes[0]
    return replace(model, notes=(trained_on, f"`amcl models show {name}` shows its card"))


def _of_hub(name: str, options: _Options) -> LoadedModel:
    """Return a model by the name of published weights."""
    _refuse_other_networks(name, options)
    kind, _, inner = name.partition(":")
    if kind == "timm":
        return _of_published(of_timm(inner, name), options)
    if kind == "torchvision":
        return _of_published(of_torchvision(inner, name), options)
    return _of_repository(name, Repository.of(name), options)


def _of_repository(name: str, repository: Repository, options: _Options) -> LoadedModel:
    """Return the model of a repository of the hub, in timm's layout or in that of `HubBackbone`."""
    config = repository.config()
    if "backbone" in config:
        return replace(_of_file(name, repository.file(WEIGHTS[0]), options), name=name)
    _refuse_other_networks(name, options)
    return _of_published(of_repository(repository, config), options)


def _refuse_other_networks(name: str, options: _Options) -> None:
    options.refuse(name, "says itself which network it is of", "backbone", "prefix")
    options.refuse(name, "is the network as published", "width", "stem")


def _of_published(published: Published, options: _Options) -> LoadedModel:
    """Return published weights, adapted to other images or patches where these are asked for."""
    name = published.name
    network, left_out = network_of(published)
    patch = published.arguments.get("patch_size")
    settings = BackboneSettings(
        name=published.architecture,
        stem="standard",
        patch=options.patch or patch,
        pool=options.pool,
    )
    with own_randomness():
        size = options.image_size or image_size_of(published)
        backbone = Backbone(settings, size, channels=options.channels)
    tensors, changes = adapted(network.state_dict(), backbone.network, name)
    backbone.load(tensors, name)
    mean, std = normalization_of(published)
    notes = [f"weights: {published.tag}", *left_out, *changes]
    if options.mean is None:
        notes.append(AS_BEFORE)
    return LoadedModel(
        name=name,
        backbone=backbone,
        mean=options.mean or mean,
        std=options.std or std,
        notes=tuple(notes),
    )


def _of_folder(name: str, run: RunFolder) -> LoadedModel:
    if not run.backbone.is_file():
        raise no_backbone(run)
    tensors, metadata = read_safetensors(run.backbone)
    if metadata is None:
        raise ValueError(
            f"{run.backbone} was not written by amcl: give the file itself, and name its model."
        )
    return _of_backbone(name, run.backbone, tensors, metadata)


def _of_file(name: str, path: Path, options: _Options) -> LoadedModel:
    if path.suffix == ".safetensors":
        tensors, metadata = read_safetensors(path)
        saved = from_tensors(path, tensors, metadata)
        if metadata is not None and saved is None:
            options.refuse(name, "says itself what it holds")
            return _of_backbone(name, path, tensors, metadata)
        tables = {"": tensors}
    else:
        state = read_safely(path)
        saved = from_checkpoint(path, state)
        tables = tables_of(state)
    if saved is not None:
        return _of_method(name, saved, options)
    return _of_others(name, path, tables, options)


def _of_backbone(name: str, path: Path, tensors: Table, metadata: dict[str, Any]) -> LoadedModel:
    """Return a backbone that amcl wrote: that of a run, or an exported one."""
    backbone = backbone_of(metadata, tensors, path)
    run = RunFolder(path.parent)
    if path != run.backbone or not run.config.is_file():
        return LoadedModel.from_metadata(name, backbone, metadata)
    return LoadedModel.from_metadata(
        name,
        backbone,
        metadata,
        folder=run.path,
        checkpoint=run.newest_checkpoint(),
        config=run.read_config(),
    )


def _of_method(name: str, saved: SavedMethod, options: _Options) -> LoadedModel:
    """Return the backbone of a checkpoint, or of an exported method."""
    metadata = saved.metadata
    if metadata is None:
        reason = "says itself which network it holds"
        options.refuse(
            name, reason, "backbone", "width", "stem", "patch", "pool", "prefix", "pretrained"
        )
        if options.image_size is None or options.mean is None:
            raise ValueError(saved.missing_metadata())
        metadata = {"image_size": options.image_size, "mean": options.mean, "std": options.std}
    else:
        options.refuse(name, "says itself what it holds")
    path = saved.path if len(saved.path.parts) > 2 else saved.path.absolute()
    run = RunFolder(path.parent.parent)
    of_run = path.parent == run.checkpoint.parent and run.config.is_file()
    return LoadedModel.from_metadata(
        name,
        saved.backbone(metadata),
        metadata,
        folder=run.path if of_run else None,
        checkpoint=saved.path,
        config=saved.config,
    )


def _of_others(name: str, path: Path, tables: dict[str, Table], options: _Options) -> LoadedModel:
    """Return a backbone with weights that other tools wrote."""
    options.refuse(name, "is a file with weights", "pretrained")
    if options.backbone is None:
        raise UndescribedError(
            f"{path} does not say which network it holds: name the timm model, as "
            "backbone='resnet18' (--backbone resnet18)."
        )
    channels = options.channels
    if options.adapt:
        channels = input_channels(options.backbone, tables) or channels
    backbone, notes = _random_backbone(options.backbone, options, 0, channels)
    notes = load_weights(backbone, tables, path, options.prefix, options.adapt) + notes
    mean, std = options.mean or IMAGENET_MEAN, options.std or IMAGENET_STD
    is_normalized = len(mean) == channels
    if not is_normalized:
        mean, std = (0.0,) * channels, (1.0,) * channels
        notes.append(f"the file does not say how images of {channels} channels are normalized")
    elif options.mean is None:
        notes.append(AS_IMAGENET)
    return LoadedModel(
        name=name,
        backbone=backbone,
        mean=mean,
        std=std,
        is_normalized=is_normalized,
        notes=tuple(notes),
    )


def _of_timm(name: str, options: _Options, seed: int) -> LoadedModel:
    """Return a network by its name alone."""
    options.refuse(name, "is a timm model, and neither file nor folder", "backbone", "prefix")
    if options.pretrained:
        _refuse_other_networks(name, options)
        return _of_published(of_timm(name, name), options)
    backbone, notes = _random_backbone(name, options, seed, options.channels)
    notes.insert(0, f"untrained: random weights (seed {seed})")
    if options.mean is None:
        notes.append(AS_IMAGENET)
    return LoadedModel(
        name=name,
        backbone=backbone,
        mean=options.mean or IMAGENET_MEAN,
        std=options.std or IMAGENET_STD,
        untrained=True,
        notes=tuple(notes),
    )


def _random_backbone(
    name: str, options: _Options, seed: int, channels: int
) -> tuple[Backbone, list[str]]:
    """Return the network with the first weights of a SimCLR run of this seed, and notes."""
    import timm

    settings = BackboneSettings(
        name=name,
        width=options.width,
        stem=options.stem,
        patch=options.patch,
        pool=options.pool,
    )
    size = options.image_size
    notes = []
    if size is None:
        published: Any = timm.get_pretrained_cfg(name)
        size = published.input_size[-1]
        notes.append(f"{name} is made for images of {size} pixels")
    with own_randomness(seed_of(seed, "weights")):
        return Backbone(settings, size, channels=channels), notes


def _per_channel(name: str, values: Sequence[float] | None) -> PerChannel | None:
    if values is None:
        return None
    if not values:
        raise ValueError(f"{name} must be a number for each channel, got none.")
    check = positive_number if name == "std" else finite_number
    if name == "mean" and len(values) == 3:
        check = non_negative
    return tuple(check(name, v, "it is for pixels in [0, 1], as 0.5") for v in values)
