"""From what a user names to a backbone: a run, a checkpoint, a file, a timm model."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from amcl.backbones import (
    Backbone,
    BackboneSettings,
    Pool,
    Stem,
    backbone_of,
    own_randomness,
    read_safetensors,
    unknown_model,
)
from amcl.checkpoints.files import read_safely
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.checkpoints.method import (
    SavedMethod,
    from_checkpoint,
    from_tensors,
    newest_checkpoint,
    no_backbone,
)
from amcl.checkpoints.run_folder import RunFolder
from amcl.checkpoints.weights import Table, load_weights, tables_of
from amcl.data.images import Rgb
from amcl.seeds import seed_of
from amcl.settings import non_negative, positive_number
from amcl.views import IMAGENET_MEAN, IMAGENET_STD

FILES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".tar")


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the user says about a model that does not say it itself."""

    backbone: str | None = None
    width: float = 1.0
    stem: Stem = "auto"
    patch: int | None = None
    pool: Pool = "auto"
    image_size: int | None = None
    mean: Rgb | None = None
    std: Rgb | None = None
    prefix: str | None = None
    pretrained: bool = False

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std go together: give both or neither.")

    def refuse(self, source: object, why: str, *names: str) -> None:
        """Raise an error if any of these was said; all of them unless named."""
        said = [
            f.name
            for f in fields(self)
            if (not names or f.name in names) and getattr(self, f.name) != f.default
        ]
        if said:
            raise ValueError(f"{source} {why}: leave out {', '.join(said)}.")


def load(source: str | os.PathLike[str]) -> Backbone:
    """The trained backbone of a run folder, a checkpoint or an exported file.

    It turns images (N, 3, S, S) into features (N, D). `load(…).normalization` are the mean and std
    that images are to be normalized with. A timm model by name has random weights, with a warning;
    `open_model` takes more options, such as `pretrained=True`.
    """
    model = open_model(os.fspath(source))
    if model.untrained:
        warnings.warn(
            f"{model.name!r} is a timm model and no trained file: its weights are random. "
            f"amcl.checkpoints.open_model({model.name!r}, pretrained=True) fetches timm's.",
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
    """The backbone that `source` names, ready to use.

    - A run folder, one of its checkpoints, or a `.safetensors` file of amcl: these say all about
      themselves.
    - Weights that others wrote (.safetensors, .pt, .pth, .bin, .ckpt, .tar): `backbone` names the
      timm model, with `width`, `stem`, `patch` and `pool` as in pre-training. The weights are found
      in the file, whatever stands before their keys; `prefix` chooses where there are several.
    - A timm model by name: random weights that follow from `seed`, or timm's with `pretrained`.

    Where the source does not say them, `image_size` is the timm model's own, and `mean` and `std`
    are ImageNet's. Files are read without running anything in them.

    >>> model = open_model("resnet18", width=0.25, image_size=32)
    >>> model.backbone.dim
    128
    >>> model.notes
    ('untrained: random weights (seed 0)', 'images are normalized as ImageNet')
    """
    import timm

    asked = _Asked(
        backbone=backbone,
        width=width,
        stem=stem,
        patch=patch,
        pool=pool,
        image_size=image_size,
        mean=_rgb("mean", mean),
        std=_rgb("std", std),
        prefix=prefix,
        pretrained=pretrained,
    )
    name, path = str(source), Path(source).expanduser()
    # What lies there comes before timm's names: a run is never mistaken for an untrained network.
    if name and path.is_dir():
        asked.refuse(name, "says itself what it holds")
        return _of_folder(name, RunFolder(path))
    if path.is_file():
        return _of_file(name, path, asked)
    if timm.is_model(name):
        return _of_timm(name, asked, seed)
    if len(Path(name).parts) != 1 or path.suffix in FILES or not name:
        raise FileNotFoundError(f"there is no file or folder {name!r}.")
    raise ValueError(f"there is no file or folder {name!r}, and {unknown_model(name)}")


def _of_folder(name: str, run: RunFolder) -> LoadedModel:
    if not run.backbone.is_file():
        raise no_backbone(run)
    tensors, made = read_safetensors(run.backbone)
    if made is None:
        raise ValueError(
            f"{run.backbone} was not written by amcl: give the file itself, and name its model."
        )
    return _of_backbone(name, run.backbone, tensors, made)


def _of_file(name: str, path: Path, asked: _Asked) -> LoadedModel:
    if path.suffix == ".safetensors":
        tensors, made = read_safetensors(path)
        saved = from_tensors(path, tensors, made)
        if made is not None and saved is None:
            asked.refuse(name, "says itself what it holds")
            return _of_backbone(name, path, tensors, made)
        tables = {"": tensors}
    else:
        state = read_safely(path)
        saved, tables = from_checkpoint(path, state), tables_of(state)
    if saved is not None:
        return _of_method(name, saved, asked)
    return _of_others(name, path, tables, asked)


def _of_backbone(name: str, path: Path, tensors: Table, made: dict[str, Any]) -> LoadedModel:
    """A backbone that amcl wrote: a run's own, or an exported one."""
    backbone, run = backbone_of(made, tensors, path), RunFolder(path.parent)
    if path != run.backbone or not run.config.is_file():
        return LoadedModel.from_metadata(name, backbone, made)
    checkpoint, config = newest_checkpoint(run), run.read_config()
    return LoadedModel.from_metadata(
        name, backbone, made, folder=run.path, checkpoint=checkpoint, config=config
    )


def _of_method(name: str, saved: SavedMethod, asked: _Asked) -> LoadedModel:
    """The backbone of a checkpoint, or of an exported method."""
    trained = saved.trained
    if trained is None:
        why = "says itself which network it holds"
        asked.refuse(
            name, why, "backbone", "width", "stem", "patch", "pool", "prefix", "pretrained"
        )
        if asked.image_size is None or asked.mean is None:
            raise ValueError(saved.says_too_little())
        trained = {"image_size": asked.image_size, "mean": asked.mean, "std": asked.std}
    else:
        asked.refuse(name, "says itself what it holds")
    path = saved.path if len(saved.path.parts) > 2 else saved.path.absolute()
    run = RunFolder(path.parent.parent)
    of_run = path.parent == run.checkpoint.parent and run.config.is_file()
    return LoadedModel.from_metadata(
        name,
        saved.backbone(trained),
        trained,
        folder=run.path if of_run else None,
        checkpoint=saved.path,
        config=saved.config,
    )


def _of_others(name: str, path: Path, tables: dict[str, Table], asked: _Asked) -> LoadedModel:
    """Weights that other tools wrote."""
    asked.refuse(name, "is a file with weights", "pretrained")
    if asked.backbone is None:
        raise ValueError(
            f"{path} does not say which network it holds: name the timm model, as "
            "backbone='resnet18' (--backbone resnet18)."
        )
    backbone, notes = _fresh(asked.backbone, asked, 0)
    found = load_weights(backbone, tables, path, asked.prefix)
    mean, std = asked.mean or IMAGENET_MEAN, asked.std or IMAGENET_STD
    if asked.mean is None:
        notes.append("images are normalized as ImageNet")
    return LoadedModel(name=name, backbone=backbone, mean=mean, std=std, notes=(*found, *notes))


def _of_timm(name: str, asked: _Asked, seed: int) -> LoadedModel:
    """A network by its name alone."""
    asked.refuse(name, "is a timm model, and neither file nor folder", "backbone", "prefix")
    backbone, notes = _fresh(name, asked, seed)
    mean, std, told = IMAGENET_MEAN, IMAGENET_STD, "images are normalized as ImageNet"
    if asked.pretrained:
        config = _take_pretrained(backbone)
        mean, std, told = config.mean, config.std, "images are normalized as timm did"
        notes.insert(0, f"weights by timm: {config.tag or 'its default'}")
    else:
        notes.insert(0, f"untrained: random weights (seed {seed})")
    if asked.mean is None:
        notes.append(told)
    mean, std = asked.mean or mean, asked.std or std
    return LoadedModel(
        name=name,
        backbone=backbone,
        mean=mean,
        std=std,
        untrained=not asked.pretrained,
        notes=tuple(notes),
    )


def _fresh(name: str, asked: _Asked, seed: int) -> tuple[Backbone, list[str]]:
    """The network with random weights, as a run of SimCLR with this seed would start; and notes."""
    import timm

    settings = BackboneSettings(
        name=name, width=asked.width, stem=asked.stem, patch=asked.patch, pool=asked.pool
    )
    size, notes = asked.image_size, []
    if size is None:
        published: Any = timm.get_pretrained_cfg(name)
        size = published.input_size[-1]
        notes.append(f"images of {size} pixels, which {name} is made for")
    with own_randomness(seed_of(seed, "weights")):
        return Backbone(settings, size), notes


def _take_pretrained(backbone: Backbone) -> Any:
    """Give the backbone timm's weights; returns what timm says about them."""
    import timm

    name = backbone.settings.name
    config: Any = timm.get_pretrained_cfg(name)
    if not config.has_weights:
        raise ValueError(f"timm has no pretrained weights of {name}.")
    if not backbone.as_published:
        raise ValueError(
            f"timm's pretrained weights are for {name} as published: leave out width, stem and "
            f"image_size, or use width=1, stem='standard', image_size={config.input_size[-1]}."
        )
    try:
        with own_randomness():
            network = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # each layer below timm has its own errors for the same trouble
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConnectionError(
            f"could not get timm's weights of {name}: {reason} If this machine is not online, "
            "fetch the file elsewhere and name it, with backbone to say what it holds."
        ) from error
    backbone.load(network.state_dict(), f"timm's {name}")
    return config


def _rgb(name: str, values: Sequence[float] | None) -> Rgb | None:
    if values is None:
        return None
    if len(values) != 3:
        raise ValueError(f"{name} must be three numbers (red, green, blue), got {tuple(values)}.")
    check = positive_number if name == "std" else non_negative
    red, green, blue = (check(name, v, "it is for pixels in [0, 1], as 0.5") for v in values)
    return red, green, blue
