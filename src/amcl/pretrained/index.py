"""The index of the models that come with amcl, and their files."""

import difflib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
"""Folder of the index, the weights and the cards."""
INDEX = "index.json"
"""Name of the index: a table for each model, by its name."""


@dataclass(frozen=True, kw_only=True)
class PretrainedModel:
    """A model that comes with amcl. Its numbers are those of the files of its run."""

    name: str
    """Name that `amcl.load` and every MODEL of the command line take."""
    sha256: str
    """SHA-256 of the file of its weights."""
    size: int
    """Bytes of that file."""
    network: str
    """The network, with the factor of its width."""
    parameters: int
    """Number of its parameters."""
    features: int
    """Number of its features."""
    image_size: int
    """Pixels a side of its images."""
    method: str
    """Method that it was trained with, its heads and its temperature."""
    data: str
    """Name of the data that it was trained on."""
    images: int
    """Number of images that it was trained on."""
    epochs: float
    """Number of epochs that it was trained for."""
    run: str
    """Name of the folder of its run."""
    command: str
    """Command that trained it; of a sweep, the command that trained this run among others."""
    notes: list[str]
    """Sentences that a user has to know: first, what it was trained on; then others."""
    results: list[dict[str, Any]]
    """Results of evaluations: protocol, data, split, images, seed, metrics, command."""
    baselines: dict[str, list[dict[str, Any]]]
    """Results of other models by the same evaluations, by what the model is."""

    @property
    def weights(self) -> Path:
        """File of the weights."""
        return FOLDER / f"{self.name}.safetensors"

    @property
    def card(self) -> Path:
        """File of the model card, in Markdown."""
        return FOLDER / f"{self.name}.md"

    def accuracy(self, protocol: str) -> float:
        """Return the share of test images that a protocol classified correctly.

        Args:
            protocol: "knn" or "linear".
        """
        (top1,) = (
            result["metrics"]["top1"]
            for result in self.results
            if (result["protocol"], result["split"]) == (protocol, "test")
        )
        return float(top1)


def names() -> tuple[str, ...]:
    """Return the names of all models that come with amcl.

    Example:
        >>> "cifar10-resnet10-simclr-amcl" in names()
        True
    """
    return tuple(sorted(_index()))


def pretrained_model(name: str) -> PretrainedModel:
    """Return what the index says of a model.

    Args:
        name: Name of the model.

    Returns:
        The entry of the index.

    Raises:
        ValueError: No model has this name.

    Example:
        >>> model = pretrained_model("cifar10-resnet10-simclr-amcl")
        >>> model.network, model.size < 5_000_000
        ('resnet10t ×0.25', True)
    """
    table = _index().get(name)
    if table is None:
        raise ValueError(f"no model that comes with amcl is called {name!r}: {suggestion(name)}")
    return PretrainedModel(name=name, **table)


def suggestion(name: str) -> str:
    """Return the words that follow on the name of a model that does not exist."""
    if near := similar(name):
        return f"did you mean {', '.join(near)}?"
    return f"they are {', '.join(names())}."


def similar(name: str) -> list[str]:
    """Return the names of models that a name may be a misspelling of."""
    return difflib.get_close_matches(name, names(), n=1)


def no_run(path: Path) -> str:
    """Return the end of an error about a run folder that does not exist: " " and a hint, or "".

    Args:
        path: The folder as the user named it.

    Example:
        >>> no_run(Path("runs/first"))
        ''
    """
    name = str(path)
    if name not in names():
        return ""
    return (
        f" {name} is a model that comes with amcl, which has weights and no run: `amcl models show "
        f"{name}` shows its training and its numbers."
    )


def checked_weights(name: str) -> Path:
    """Return the file of the weights of a model, after comparing it with its checksum.

    Args:
        name: Name of the model.

    Returns:
        The file.

    Raises:
        ValueError: No model has this name, or its file is damaged.

    Example:
        >>> checked_weights("cifar10-resnet10-simclr-amcl").name
        'cifar10-resnet10-simclr-amcl.safetensors'
    """
    model = pretrained_model(name)
    with model.weights.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != model.sha256:
        raise ValueError(
            f"{model.weights} is damaged: its SHA-256 is not that of the index. Install amcl again."
        )
    return model.weights


def _index() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
    return tables
