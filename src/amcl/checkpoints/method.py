"""Whole methods with heads and temperatures, from a checkpoint or an exported file."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from amcl.backbones import Backbone, backbone_of, own_randomness
from amcl.checkpoints.adapt import Table
from amcl.checkpoints.files import check_format, read_safely
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.errors import RunError
from amcl.files import expand_home
from amcl.methods import METHODS, Method, make_method
from amcl.tensor_files import read_safetensors
from amcl.text_files import require


@dataclass(frozen=True)
class SavedMethod:
    """A method as a checkpoint or an exported file holds it."""

    path: Path
    """The file."""
    config: Config
    """Configuration of the run."""
    metadata: dict[str, Any] | None
    """Image size, normalization, number of steps; None in checkpoints of the first versions."""
    state: Table
    """State dict of the method."""

    def backbone(self, metadata: dict[str, Any]) -> Backbone:
        """Return the trained backbone: for MoCo the query encoder's, for DINO the teacher's."""
        prefix = f"{METHODS[self.config.method.name].exported}.network."
        n = len(prefix)
        network = {key[n:]: v for key, v in self.state.items() if key.startswith(prefix)}
        return backbone_of({**metadata, **self.config.backbone.metadata()}, network, self.path)

    def method(self) -> Method:
        """Return the method, in evaluation mode."""
        if self.metadata is None:
            raise ValueError(self.missing_metadata())
        backbone = self.backbone(self.metadata)
        with own_randomness():
            method = make_method(self.config.method, backbone)
        expected = method.state_dict()
        wrong = sorted(self.state.keys() ^ expected.keys())
        wrong += [
            key
            for key, value in expected.items()
            if key in self.state and value.shape != self.state[key].shape
        ]
        if wrong:
            raise ValueError(
                f"{self.path} does not fit the method that its configuration describes, from "
                f"{wrong[0]!r} on: it was saved by another version of amcl."
            )
        method.load_state_dict(self.state)
        return method.eval()

    def missing_metadata(self) -> str:
        """Return the error message for a file without metadata."""
        return (
            f"{self.path} is of an early version and does not say how its images were prepared: "
            "give image_size, mean and std, or open the folder of a run that has ended."
        )


class _Saved(TypedDict):
    """Content of a checkpoint that a method is made from."""

    config: str
    method: Table
    trained: NotRequired[dict[str, Any] | None]


def load_method(source: str | Path) -> Method:
    """Return the whole method of a run, with its heads, in evaluation mode.

    Args:
        source: A run folder, whose newest checkpoint is taken, a checkpoint, an exported
            `method.safetensors`, or the folder that holds one.

    Returns:
        The method with its trained weights.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        RunError: If the folder holds no checkpoint.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from amcl.backbones import BackboneSettings
        >>> from amcl.checkpoints.files import save_checkpoint
        >>> config = Config(backbone=BackboneSettings(name="resnet10t", width=0.125))
        >>> method = make_method(config.method, Backbone(config.backbone, image_size=32))
        >>> images = {"image_size": 32, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
        >>> state = {"config": config.to_toml(), "method": method.state_dict(), "trained": images}
        >>> with TemporaryDirectory() as folder:
        ...     save_checkpoint(Path(folder) / "last.pt", state)
        ...     loaded = load_method(Path(folder) / "last.pt")
        >>> loaded.training, loaded.backbone.image_size
        (False, 32)
    """
    path = expand_home(source)
    if path.is_dir():
        exported = path / "method.safetensors"
        path = exported if exported.is_file() else _checkpoint_of(RunFolder(path))
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {str(source)!r}.")
    return saved_method(path).method()


def saved_method(path: Path) -> SavedMethod:
    """Return the method in a file, or raise an error."""
    if path.suffix == ".safetensors":
        saved = from_tensors(path, *read_safetensors(path))
    else:
        saved = from_checkpoint(path, read_safely(path))
    if saved is None:
        raise ValueError(
            f"{path} holds no method: give a run folder, one of its checkpoints, or the "
            "method.safetensors that `amcl export` writes."
        )
    return saved


def from_tensors(path: Path, tensors: Table, metadata: dict[str, Any] | None) -> SavedMethod | None:
    """Return the method in an exported file; None if the file holds something else."""
    if metadata is None or "config" not in metadata:
        return None
    require(metadata["config"], str, f"the configuration in {path}")
    config = Config.from_toml(metadata["config"], f"the configuration in {path}")
    return SavedMethod(path, config, metadata, tensors)


def from_checkpoint(path: Path, state: Any) -> SavedMethod | None:
    """Return the method in a checkpoint of a run; None if the file holds something else."""
    if not isinstance(state, dict) or not {"format", "config", "method"} <= state.keys():
        return None
    check_format(path, state)
    require(state, _Saved, path)
    config = Config.from_toml(state["config"], f"the configuration in {path}")
    return SavedMethod(path, config, state.get("trained"), state["method"])


def no_backbone(run: RunFolder) -> RunError:
    """Return an error that says why a folder has no backbone, and what to do."""
    if not run.config.is_file():
        return RunError(
            f"{run.path} is no run folder: it has neither {run.config.name} nor "
            f"{run.backbone.name}."
        )
    resume = f"amcl pretrain --resume {shlex.quote(str(run.path))}"
    newest = run.newest_checkpoint()
    if newest is None:
        return RunError(f"the run in {run.path} has saved nothing yet. Resume it: {resume}")
    return RunError(
        f"the run in {run.path} has not ended, so it has no {run.backbone.name} yet. Name its "
        f"newest checkpoint instead, {newest}, or finish it: {resume}"
    )


def _checkpoint_of(run: RunFolder) -> Path:
    newest = run.newest_checkpoint()
    if newest is not None:
        return newest
    if run.backbone.is_file():
        raise RunError(f"{run.path} has no checkpoint, which is where heads are: only a backbone.")
    raise no_backbone(run)
