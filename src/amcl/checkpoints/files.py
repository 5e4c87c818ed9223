"""Checkpoints that are whole or not there, and that run no code when they are read."""

import json
import re
import shutil
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch
from safetensors.torch import save as safetensors_bytes
from torch.serialization import safe_globals

from amcl.backbones import Backbone
from amcl.errors import RunError
from amcl.files import whole_file

FORMAT = 1


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint so that `path` always holds a whole one: the old or the new."""
    kept = "the checkpoint before it is untouched" if path.exists() else "there is none yet"
    with _writing(path, kept) as file:
        torch.save({"format": FORMAT, **state}, file)


@contextmanager
def _writing(path: Path, kept: str = "") -> Iterator[IO[bytes]]:
    """Write a file, whole or not at all; an error says what is left."""
    try:
        with whole_file(path) as file:
            yield file
    except (OSError, RuntimeError) as error:  # torch wraps a full disk in a RuntimeError
        kept = f"; {kept}" if kept else ""
        raise RunError(f"could not write {path} ({error}){kept}. Is the disk full?") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of a run."""
    if not path.is_file():
        raise RunError(f"there is no checkpoint {path}: the run had not saved one yet.")
    state: dict[str, Any] = read_safely(path)
    check_format(path, state)
    return state


def check_format(path: Path, state: Any) -> None:
    """Raise an error unless this is what this version saves."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise RunError(f"{path} is not a checkpoint of this version of amcl.")


def read_safely(path: Path) -> Any:
    """What `torch.save` wrote, if it is tensors and plain values: nothing in it is executed."""
    try:
        with safe_globals([Namespace]):  # many scripts save their options beside the weights
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file fails in as many ways as it can be damaged
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if found := re.search(r"GLOBAL (\S+)", str(error)):
            reason = f"it holds {found[1]}, which is neither a tensor nor a plain value"
        raise RunError(f"{path} is no checkpoint that can be read safely: {reason}") from error


def keep_checkpoint(path: Path, name: str) -> None:
    """Keep a checkpoint under another name, for good."""
    with _writing(path.with_name(name)) as file, path.open("rb") as source:
        shutil.copyfileobj(source, file)


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Write tensors for other tools (safetensors), whole or not at all."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with _writing(path) as file:
        file.write(safetensors_bytes(plain, metadata))


def export_backbone(path: Path, backbone: Backbone, trained: dict[str, Any]) -> None:
    """Write a backbone for other tools: timm's keys, and in the metadata what made it."""
    # One entry: safetensors writes several in any order, and equal runs should be equal files.
    made = {**trained, **backbone.metadata()}
    save_tensors(path, backbone.network.state_dict(), {"amcl": json.dumps(made)})
