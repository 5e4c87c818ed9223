"""Whole methods, heads, φ and all: from a run's checkpoint, or from an exported file."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amcl.backbones import Backbone, backbone_of, own_randomness, read_safetensors
from amcl.checkpoints.files import check_format, read_safely
from amcl.checkpoints.run_folder import RunFolder
from amcl.checkpoints.weights import Table
from amcl.config import Config
from amcl.errors import RunError
from amcl.methods import Method, make_method

_NETWORK = "backbone.network."  # where a method's state dict keeps the network


@dataclass(frozen=True)
class SavedMethod:
    """A method as a checkpoint or an exported file keeps it."""

    path: Path
    config: Config
    trained: dict[str, Any] | None
    """Image size, normalization, how far it came; None in checkpoints of the first versions."""
    state: Table

    def backbone(self, trained: dict[str, Any]) -> Backbone:
        """The backbone alone: for MoCo the query encoder's."""
        n = len(_NETWORK)
        network = {key[n:]: v for key, v in self.state.items() if key.startswith(_NETWORK)}
        return backbone_of({**trained, **self.config.backbone.metadata()}, network, self.path)

    def method(self) -> Method:
        """The method, in evaluation mode."""
        if self.trained is None:
            raise ValueError(self.says_too_little())
        backbone = self.backbone(self.trained)
        with own_randomness():
            method = make_method(self.config.method, backbone)
        own = method.state_dict()
        odd = sorted(self.state.keys() ^ own.keys())
        odd += [k for k in own if k in self.state and own[k].shape != self.state[k].shape]
        if odd:
            raise ValueError(
                f"{self.path} does not fit the method that its configuration describes, from "
                f"{odd[0]!r} on: it was saved by another version of amcl."
            )
        method.load_state_dict(self.state)
        return method.eval()

    def says_too_little(self) -> str:
        return (
            f"{self.path} is of an early version and does not say how its images were prepared: "
            "give image_size, mean and std, or open the folder of a run that has ended."
        )


def load_method(source: str | Path) -> Method:
    """The whole method of a run, in evaluation mode.

    `source`: a run folder (its newest checkpoint), a checkpoint, or an exported
    `method.safetensors`, or the folder that one lies in.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        exported = path / "method.safetensors"
        path = exported if exported.is_file() else _checkpoint_of(RunFolder(path))
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {str(source)!r}.")
    return saved_method(path).method()


def saved_method(path: Path) -> SavedMethod:
    """The method in a file, or an error."""
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


def from_tensors(path: Path, tensors: Table, made: dict[str, Any] | None) -> SavedMethod | None:
    """The method in an exported file; None if the file holds something else."""
    if made is None or "config" not in made:
        return None
    config = Config.from_toml(made["config"], f"the configuration in {path}")
    return SavedMethod(path, config, made, tensors)


def from_checkpoint(path: Path, state: Any) -> SavedMethod | None:
    """The method in a run's checkpoint; None if the file holds something else."""
    if not isinstance(state, dict) or not {"format", "config", "method"} <= state.keys():
        return None
    check_format(path, state)
    config = Config.from_toml(state["config"], f"the configuration in {path}")
    return SavedMethod(path, config, state.get("trained"), state["method"])


def newest_checkpoint(run: RunFolder) -> Path | None:
    """Return the checkpoint from which a run would resume, or the last that was kept."""
    if run.checkpoint.is_file():
        return run.checkpoint
    return max(run.checkpoint.parent.glob("epoch-*.pt"), default=None)


def no_backbone(run: RunFolder) -> RunError:
    """Why there is no backbone in a folder, and what to do."""
    if not run.config.is_file():
        return RunError(
            f"{run.path} is no run folder: it has neither {run.config.name} nor "
            f"{run.backbone.name}."
        )
    resume = f"amcl pretrain --resume {shlex.quote(str(run.path))}"
    newest = newest_checkpoint(run)
    if newest is None:
        return RunError(f"the run in {run.path} has saved nothing yet. Resume it: {resume}")
    return RunError(
        f"the run in {run.path} has not ended, so it has no {run.backbone.name} yet. Name its "
        f"newest checkpoint instead, {newest}, or finish it: {resume}"
    )


def _checkpoint_of(run: RunFolder) -> Path:
    newest = newest_checkpoint(run)
    if newest is not None:
        return newest
    if run.backbone.is_file():
        raise RunError(f"{run.path} has no checkpoint, which is where heads are: only a backbone.")
    raise no_backbone(run)
