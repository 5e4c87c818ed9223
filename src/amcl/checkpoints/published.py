"""Published weights by name: timm's, those of the Hugging Face hub, torchvision's.

Files are downloaded once and read without running code in them. timm renames the tensors of other
layouts and compares them with its network; none may be missing, and none too many.
"""

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from urllib.parse import urlparse
from urllib.request import Request, urlopen

import torch

from amcl.backbones import check_model, own_randomness, some
from amcl.checkpoints.adapt import Table
from amcl.checkpoints.files import read_safely
from amcl.checkpoints.weights import tables_of
from amcl.data.images import PerChannel
from amcl.errors import first_line
from amcl.files import expand_home
from amcl.settings import positive_number, whole_number
from amcl.tensor_files import read_safetensors
from amcl.text_files import read_json, require

SOURCES = ("timm", "hf", "hf-hub", "local-dir", "torchvision")
"""What stands before the colon in the names of published weights."""
FORMS = "timm:NAME, hf:OWNER/NAME or torchvision:NAME"
"""The usual names, for messages."""
CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")

# Networks whose tensors have the same names in torchvision and in timm.
TORCHVISION = (
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"),
    *("wide_resnet50_2", "wide_resnet101_2"),
    *("densenet121", "densenet161", "densenet169", "densenet201"),
)

_TIMEOUT = 5.0  # seconds without an answer after which a hub counts as unreachable


@dataclass(frozen=True, kw_only=True)
class Published:
    """Weights with timm's description of the network that they are of."""

    name: str
    """Name for people, as the user typed it."""
    architecture: str
    """Name of the timm model."""
    tag: str
    """Which of the weights of this model they are."""
    tensors: Table
    """The weights, in the layout of their file."""
    config: dict[str, Any] = field(default_factory=dict)
    """Values of timm's `PretrainedCfg` that differ from those of the model."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments with which timm makes the network."""


def is_published(source: str | os.PathLike[str]) -> bool:
    """Return whether a name is of published weights, and of neither file nor folder.

    >>> is_published("timm:resnet18"), is_published("runs/first"), is_published("resnet18")
    (True, False, False)
    """
    source = os.fspath(source)
    kind, colon, _ = source.partition(":")
    return bool(colon) and kind in SOURCES and not expand_home(source).exists()


def of_timm(name: str, source: str) -> Published:
    """Return the weights that timm has for a model.

    Args:
        name: Name of the model, with or without the tag of its weights.
        source: Name as the user typed it.
    """
    import timm

    check_model(name)
    architecture = name.partition(".")[0]
    config: Any = timm.get_pretrained_cfg(name)
    if not config.has_weights:
        raise ValueError(f"timm has no pretrained weights of {architecture}.")
    return Published(
        name=source,
        architecture=architecture,
        tag=config.tag or "its default",
        tensors=_read(_file_of_timm(config, f"timm's weights of {architecture}")),
        config=config.to_dict(),
    )


def of_torchvision(name: str, source: str) -> Published:
    """Return the weights that torchvision has for a model.

    Args:
        name: Name of the model, with or without that of its weights: `resnet50.IMAGENET1K_V1`.
        source: Name as the user typed it.
    """
    from torchvision import models  # type: ignore[import-untyped]

    architecture, _, version = name.partition(".")
    if architecture not in TORCHVISION:
        near = difflib.get_close_matches(architecture, TORCHVISION, n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ValueError(
            f"torchvision's {architecture!r} is none of the networks that timm has under the same "
            f"names of tensors: {hint}They are {', '.join(TORCHVISION)}; timm:NAME has the others."
        )
    versions: Any = models.get_model_weights(architecture)
    if version and version not in versions.__members__:
        raise ValueError(
            f"torchvision's weights of {architecture} are {', '.join(versions.__members__)}, "
            f"got {version!r}."
        )
    weights = versions[version] if version else versions.DEFAULT
    images = weights.transforms()
    size = images.crop_size[0]
    return Published(
        name=source,
        architecture=architecture,
        tag=weights.name,
        tensors=_read(_download(weights.url, f"torchvision's weights of {architecture}")),
        config={
            "mean": tuple(images.mean),
            "std": tuple(images.std),
            "input_size": (3, size, size),  # of torchvision's networks, all of which are for RGB
        },
    )


class _Described(TypedDict):
    """What a repository says of its weights, so far as it is used."""

    tag: NotRequired[str | None]
    mean: NotRequired[tuple[float, float, float]]
    std: NotRequired[tuple[float, float, float]]
    input_size: NotRequired[tuple[int, int, int]]


class _HubConfig(TypedDict):
    """What a repository says of its network, as timm writes it."""

    architecture: str
    pretrained_cfg: NotRequired[dict[str, Any]]
    model_args: NotRequired[dict[str, Any] | None]


@dataclass(frozen=True)
class Repository:
    """Files of a repository of the Hugging Face hub, or of a folder with the same files."""

    name: str
    """Name as the user typed it."""
    folder: Path | None = None
    """The folder; None for the hub."""

    @staticmethod
    def of(source: str) -> "Repository":
        """Return the repository that a name with its kind in front names."""
        kind, _, name = source.partition(":")
        if kind == "local-dir":
            folder = expand_home(name)
            if not folder.is_dir():
                raise FileNotFoundError(f"there is no folder {name!r}.")
            return Repository(source, folder)
        if not re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", name):
            raise ValueError(
                f"{source!r} names no repository of the hub: write {kind}:OWNER/NAME, or "
                f"{kind}:OWNER/NAME@REVISION."
            )
        return Repository(source)

    def file(self, *names: str) -> Path:
        """Return the first of some files that the repository has.

        Raises:
            ValueError: It has none of them.
            ConnectionError: It has to be asked, and cannot be reached.
        """
        if self.folder is not None:
            paths = [self.folder / name for name in names if (self.folder / name).is_file()]
            path = paths[0] if paths else None
        else:
            _, _, repository = self.name.partition(":")
            path = _from_hub(repository, names, self.name)
        if path is None:
            raise ValueError(f"{self.name} has no {' or '.join(names)}.")
        return path

    def config(self) -> dict[str, Any]:
        """Return the content of its config.json."""
        return read_json(self.file(CONFIG))


def of_repository(repository: Repository, config: dict[str, Any]) -> Published:
    """Return the weights of a repository in timm's layout: config.json and model.safetensors.

    Args:
        repository: The repository.
        config: Content of its config.json.
    """
    where = f"{CONFIG} of {repository.name}"
    if "architecture" not in config:
        kind = config.get("model_type")
        layout = f"is a {kind} of transformers" if kind else "says no architecture"
        raise ValueError(
            f"{where} {layout}, and not a network of timm: timm:NAME has most of these weights in "
            "timm's layout; amcl reads no other."
        )
    require(config, _HubConfig, where)
    architecture = config["architecture"]
    try:
        check_model(architecture)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    # Files of early versions have everything in one table.
    described = config.get("pretrained_cfg", config)
    require(described, _Described, where)
    arguments = dict(config.get("model_args") or {})
    arguments.pop("num_classes", None)
    if others := sorted(arguments.keys() - {"img_size", "patch_size"}):
        raise ValueError(
            f"{where} changes {', '.join(others)} of {architecture}: amcl takes networks as timm "
            "has them, with other images (img_size) and patches (patch_size) at most."
        )
    for name, value in arguments.items():
        require(value, int, f"{name} in {where}")
        whole_number(f"{name} in {where}", value)
    for size in described.get("input_size", ()):
        whole_number(f"input_size in {where}", size)
    for std in described.get("std", ()):
        positive_number(f"std in {where}", std)
    return Published(
        name=repository.name,
        architecture=architecture,
        tag=str(described.get("tag") or "its only ones"),
        tensors=_read(repository.file(*WEIGHTS)),
        config={key: described[key] for key in ("mean", "std", "input_size") if key in described},
        arguments=arguments,
    )


def network_of(published: Published) -> tuple[Any, list[str]]:
    """Return timm's network with published weights: all of them, or an error that names the rest.

    Returns:
        The network without its classifier, and notes on what was left out.
    """
    import timm

    architecture = published.architecture
    default: Any = timm.get_pretrained_cfg(architecture)
    classifier = published.config.get("classifier") or default.classifier or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    prefixes = tuple(f"{head}." for head in heads)
    tensors = {k: v for k, v in published.tensors.items() if not k.startswith(prefixes)}
    left_out = [key for key in published.tensors if key not in tensors]
    overlay = {
        **{key: value for key, value in published.config.items() if value is not None},
        **{"state_dict": tensors, "num_classes": 0, "file": None, "source": ""},
    }
    try:
        with own_randomness():
            network = timm.create_model(
                architecture,
                pretrained=True,
                pretrained_cfg_overlay=overlay,
                **published.arguments,
            )
    except (RuntimeError, KeyError, TypeError) as error:  # as many as there are ways not to fit
        raise ValueError(
            f"the weights of {published.name} are not those of {architecture}: {_faults(error)}."
        ) from error
    notes = [f"left out its classifier: {some(left_out)}"] if left_out else []
    return network, notes


def normalization_of(published: Published) -> tuple[PerChannel, PerChannel]:
    """Return mean and std of the channels that published weights were trained with."""
    import timm

    default: Any = timm.get_pretrained_cfg(published.architecture)
    mean, std = (
        tuple(published.config.get(name) or getattr(default, name)) for name in ("mean", "std")
    )
    return mean, std


def image_size_of(published: Published) -> int:
    """Return the pixels a side of the images that published weights are for."""
    import timm

    default: Any = timm.get_pretrained_cfg(published.architecture)
    size = published.arguments.get("img_size")
    return int(size or (published.config.get("input_size") or default.input_size)[-1])


def _faults(error: Exception) -> str:
    """Return what `load_state_dict` complains about, in one line."""
    text = " ".join(str(error).split())
    faults = []
    for kind, word in (("Missing", "missing"), ("Unexpected", "one too many")):
        if match := re.search(rf"{kind} key\(s\) in state_dict: (.*?)\.(?: |$)", text):
            names = re.findall(r'"([^"]+)"', match[1])
            faults.append(f"{some(names)} {'is' if len(names) == 1 else 'are'} {word}")
    sizes = re.findall(r"size mismatch for (\S+): copying a param with shape (.*?) from", text)
    faults += [f"{some([f'{name} {shape}' for name, shape in sizes])} do not fit"] * bool(sizes)
    return "; ".join(faults) or first_line(error).rstrip(".") or type(error).__name__


def _read(path: Path) -> Table:
    """Return the tensors of a file; nothing in it is executed."""
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0]
    state = read_safely(path)
    tables = tables_of(state)
    for place in ("", "state_dict_ema.", "model_ema.", "state_dict.", "model."):
        if place in tables:
            return tables[place]
    raise ValueError(f"{path} holds no named tensors.")


def _file_of_timm(config: Any, what: str) -> Path:
    """Return the file with the weights of a configuration of timm."""
    if config.file:
        return Path(config.file)
    if config.hf_hub_id:
        names = (config.hf_hub_filename,) if config.hf_hub_filename else WEIGHTS
        path = _from_hub(config.hf_hub_id, names, what)
        if path is None:
            raise ValueError(f"{config.hf_hub_id} has no {' or '.join(names)}.")
        return path
    return _download(config.url, what)


def _from_hub(repository: str, names: Sequence[str], what: str) -> Path | None:
    """Return the first of some files that a repository of the hub has; None if it has none.

    What is in the cache is taken from there. Otherwise one short request comes first, because the
    library of the hub tries for a minute to reach one that is not there.
    """
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    repo, _, revision = repository.partition("@")
    for name in names:
        try:
            return Path(
                hf_hub_download(repo, name, revision=revision or None, local_files_only=True)
            )
        except LocalEntryNotFoundError:
            continue
    try:
        get_session().head(constants.ENDPOINT, timeout=_TIMEOUT)
        for name in names:
            try:
                return Path(hf_hub_download(repo, name, revision=revision or None))
            except LocalEntryNotFoundError:
                raise
            except EntryNotFoundError:
                continue
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise ValueError(
            f"could not get {what}: the hub has no {repository} that you may read. Check its name; "
            "a private one needs HF_TOKEN."
        ) from error
    except Exception as error:  # each library below has its own errors for the same trouble
        raise _unreachable(what, error) from error
    return None


def _download(url: str, what: str) -> Path:
    """Return the file of an address, from torch's cache if it is there; checked by its name."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(url).path).name
    if path.is_file():
        return path
    try:
        with urlopen(Request(url, method="HEAD"), timeout=_TIMEOUT):
            pass
        path.parent.mkdir(parents=True, exist_ok=True)
        checksum = re.search(r"-([0-9a-f]{8,})\.", path.name)
        torch.hub.download_url_to_file(url, str(path), checksum[1] if checksum else None)
    except Exception as error:
        raise _unreachable(what, error) from error
    return path


def _unreachable(what: str, error: Exception) -> ConnectionError:
    reason = first_line(error).rstrip(".").removeprefix("<").removesuffix(">")
    return ConnectionError(
        f"could not get {what}: {reason}. If this machine is not online, fetch the file elsewhere "
        "and name it, with --backbone to say what it holds."
    )
