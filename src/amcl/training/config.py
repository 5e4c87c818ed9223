"""The whole of a run in one typed, readable configuration, and its TOML form."""

import dataclasses
import difflib
import os
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import tomli_w
import torch

from amcl.backbones import BackboneSettings
from amcl.data import absolute_source
from amcl.methods import MethodSettings, SimCLRSettings, method_names, settings_class
from amcl.settings import choose, finite_number, whole_number
from amcl.training.optimizers import OptimizerSettings
from amcl.views import ViewSettings

UNLEARNED = ("save_every", "save_minutes", "keep_every", "log_every", "tensorboard", "wandb")
"""Fields of a run that change nothing that is learned."""

PLACEHOLDER = "FOLDER"  # the data of recipes for folders
_LONG = 30  # names: more are not listed where one of them is near


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What is trained on."""

    data: str = "builtin"
    """A folder of images, a named set (cifar10, cifar100, stl10, tinyimagenet, imagenet), or
    builtin."""
    data_root: str | None = None
    """Where named sets lie; none: $AMCL_DATA, or ~/.cache/amcl."""
    image_size: int | None = None
    """Pixels a side of the views; none: the set's own."""
    canvas: int | None = None
    """Pixels a side that a folder's pictures are kept at; none: 1.5 times the image size."""
    labels: Literal["auto", "folders", "none"] = "auto"
    """Sub-folders are classes, for probes only; auto: where each image lies in one of them."""
    probe: Literal["validation", "test", "none"] = "validation"
    """What is watched while training: images held out of the training split, or the test split."""
    validation: int = 1000
    """So many images are held out of training, at most a tenth of the set; 0: none."""
    subset: int | None = None
    """Train on so many images, each class by its share, the same for every seed; none: on all."""
    memory: float = 4.0
    """Sets of up to so many GiB are kept decoded in memory, larger ones decoded ahead of use."""
    workers: int = 2
    """Processes that decode a folder's pictures."""

    def __post_init__(self) -> None:
        # Runs are evaluated and resumed from other working folders, too.
        if self.data != PLACEHOLDER:
            object.__setattr__(self, "data", absolute_source(self.data))
        if self.data_root:
            root = Path(self.data_root).expanduser().absolute()
            object.__setattr__(self, "data_root", str(root))
        choose("labels", self.labels, ("auto", "folders", "none"))
        choose("probe", self.probe, ("validation", "test", "none"))
        finite_number("memory", self.memory, "it is in GiB; 0 keeps nothing in memory")
        for name in ("image_size", "canvas"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), "it is in pixels")
        if self.subset is not None:
            whole_number("subset", self.subset, "leave it out to train on all images")
        for name in ("validation", "workers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}.")

    @property
    def name(self) -> str:
        """The data set for people: of a folder, the last part of its path."""
        return Path(self.data).name or self.data


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How long, and what is kept and shown."""

    epochs: int = 200
    """Passes over the training images."""
    batch_size: int = 256
    """Images a step, over all processes; each gives two views (MAE: one)."""
    fit: tuple[str, ...] | None = None
    """Options that are lowered where there are few images; none: all stay as they are. By default
    those that are neither typed nor read from a file."""
    accumulate: int = 1
    """Cut each step's batch into so many parts, one after the other, to save memory. Negatives
    are those of a part."""
    init: str | None = None
    """Start from the backbone of this run, a folder or its backbone.safetensors; none: from random
    weights (LGP: from a run of MAE of its own)."""
    seed: int = 0
    """Weights, order, views: everything random follows from it."""
    probe_every: int = 10
    """Epochs between probes: kNN where there are labels, spread of features, temperatures."""
    knn_k: int | None = None
    """Neighbors of the kNN probe; none: the median size of the classes, at most 200."""
    save_every: int = 1
    """Epochs between checkpoints; epochs of a few seconds share one."""
    save_minutes: float = 10.0
    """Minutes between checkpoints within an epoch."""
    keep_every: int = 0
    """Keep the checkpoint of every so many epochs for good; 0: only the newest."""
    log_every: int = 50
    """Steps between lines of metrics."""
    tensorboard: bool = False
    """Write metrics for TensorBoard too (extra: tensorboard)."""
    wandb: str | None = None
    """Send metrics to this project of Weights & Biases (extra: wandb)."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "probe_every", "save_every"):
            whole_number(name, getattr(self, name))
        if self.knn_k is not None:
            whole_number("knn_k", self.knn_k, "leave it out to follow the size of classes")
        whole_number("log_every", self.log_every)
        finite_number("save_minutes", self.save_minutes, "0 saves after every step")
        finite_number("keep_every", self.keep_every, "0 keeps the newest only")
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"batch_size={self.batch_size} does not divide into accumulate={self.accumulate} "
                "equal parts: choose a multiple."
            )


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    """What it runs on. None of this changes what is learned, so a resumed run may change it."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    devices: int = 0
    """Processes a machine, one a GPU; 0: every GPU, or one process on a CPU."""
    nodes: int = 1
    """Machines, under torchrun or SLURM."""
    precision: Literal["auto", "32", "16", "bf16"] = "auto"
    """auto: bf16 where a GPU has it, else 32. On a CPU always 32."""
    channels_last: bool = True
    """Keep images channel by channel innermost, which convolutions like."""
    sync_norm: bool = False
    """Batch norm over the images of all processes."""
    threads: int = 0
    """CPU threads a process; 0: as torch chooses."""

    def __post_init__(self) -> None:
        choose("accelerator", self.accelerator, ("auto", "cpu", "cuda", "mps"))
        choose("precision", self.precision, ("auto", "32", "16", "bf16"))
        whole_number("nodes", self.nodes)
        finite_number("devices", self.devices, "0 takes every GPU, or one process on a CPU")
        finite_number("threads", self.threads, "0 leaves it to torch")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run of pre-training, whole."""

    data: DataSettings = field(default_factory=DataSettings)
    views: ViewSettings = field(default_factory=ViewSettings)
    backbone: BackboneSettings = field(default_factory=BackboneSettings)
    method: MethodSettings = field(default_factory=SimCLRSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    run: RunSettings = field(default_factory=RunSettings)
    hardware: HardwareSettings = field(default_factory=HardwareSettings)

    def __post_init__(self) -> None:
        with torch.device("meta"):  # made to be checked, before any image is read
            self.method.check()
        for name in self.run.fit or ():
            choose("fit", name, ("batch_size", *self.method.fitted))
        if self.views.local_crops and not self.method.multi_crop:
            raise ValueError(
                f"local_crops={self.views.local_crops} is for methods that take smaller crops "
                f"beside their views, and {self.method.name} does not: leave it out."
            )
        self.method.check_batch(self.run.batch_size, self.run.accumulate)

    @property
    def negatives(self) -> int:
        """Number of negatives of an anchor; 0 for methods that have none."""
        return self.method.num_negatives(self.run.batch_size // self.run.accumulate)

    def to_toml(self) -> str:
        """This configuration as TOML; fields that are None are left out."""
        tables = {
            section.name: _plain(getattr(self, section.name))
            for section in dataclasses.fields(self)
        }
        tables["method"] = {"name": self.method.name} | tables["method"]
        return tomli_w.dumps(tables)

    @staticmethod
    def from_toml(text: str, where: str = "the configuration") -> "Config":
        """Read what `to_toml` wrote, or a person: what is left out has its default."""
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{where} is not TOML: {error}.") from None
        sections = typing.get_type_hints(Config)
        values = {}
        for name, table in tables.items():
            if name not in sections:
                raise ValueError(unknown(f"{where} has a section [{name}]", name, sections))
            if not isinstance(table, dict):
                raise ValueError(f"{where}: {name} must be a section [{name}], got {table!r}.")
            settings = sections[name]
            if name == "method":
                table = dict(table)
                method = table.pop("name", "simclr")
                if method not in method_names():
                    given = f"{where}: [method] has name = {method!r}"
                    raise ValueError(unknown(given, str(method), method_names()))
                settings = settings_class(method)
            values[name] = _settings(settings, table, f"{where}: [{name}]")
        try:
            return Config(**values)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> "Config":
        """Read a configuration file."""
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"there is no configuration file {path}.")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a text file in UTF-8.") from None
        return Config.from_toml(text, str(path))


def _plain(settings: Any) -> dict[str, Any]:
    values = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None
    }


def _settings(cls: Any, table: dict[str, Any], where: str) -> Any:
    hints = {f.name: typing.get_type_hints(cls)[f.name] for f in dataclasses.fields(cls)}
    for name in table:
        if name not in hints:
            raise ValueError(unknown(f"{where} has {name!r}", name, hints))
    values = {name: typed(value, hints[name], f"{where} {name}") for name, value in table.items()}
    try:
        return cls(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def typed(value: Any, hint: Any, where: str) -> Any:
    """`value`, as TOML gives it, as the type a field declares; an error where it is another."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for choice in args:
            try:
                return typed(value, choice, where)
            except ValueError:
                continue
    elif origin is Literal:
        if value in args:
            return value
        accepted = ", ".join(map(repr, args))
        raise ValueError(f"{where} must be one of {accepted}; got {value!r}.")
    elif origin is tuple and isinstance(value, list):
        kinds = [args[0]] * len(value) if args[-1] is Ellipsis else list(args)
        if len(kinds) == len(value):
            return tuple(typed(v, k, where) for v, k in zip(value, kinds, strict=True))
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif type(value) is hint:
        return value
    kind = hint.__name__ if isinstance(hint, type) else str(hint)
    raise ValueError(f"{where} must be {kind}, got {value!r}.")


def unknown(given: str, name: str, accepted: Any) -> str:
    """What to say of a name that is not accepted, with the nearest that is."""
    near = difflib.get_close_matches(name, list(accepted), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if near and len(accepted) > _LONG:
        return f"{given}, which is unknown: {hint.rstrip()}"
    return f"{given}, which is unknown: {hint}Accepted are {', '.join(accepted)}."
