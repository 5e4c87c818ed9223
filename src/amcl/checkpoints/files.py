"""Checkpoint files: written whole or not at all, and read without running code in them."""

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
from amcl.errors import RunError, first_line
from amcl.files import whole_file

FORMAT = 1


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint so that `path` always holds a whole one: the old or the new."""
    previous = "the checkpoint before it is untouched" if path.exists() else "there is none yet"
    with _writing(path, f"; {previous}") as file:
        torch.save({"format": FORMAT, **state}, file)


@contextmanager
def _writing(path: Path, previous: str = "") -> Iterator[IO[bytes]]:
    """Open a file that is written whole or not at all; an error says what became of the old one."""
    try:
        with whole_file(path) as file:
            yield file
    except (OSError, RuntimeError) as error:  # torch wraps a full disk in a RuntimeError
        raise RunError(f"could not write {path} ({error}){previous}. Is the disk full?") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of a run."""
    if not path.is_file():
        raise RunError(f"there is no checkpoint {path}: the run had not saved one yet.")
    state: dict[str, Any] = read_safely(path)
    check_format(path, state)
    return state


def check_format(path: Path, state: Any) -> None:
    """Raise an error unless this is a checkpoint of this version."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise RunError(f"{path} is not a checkpoint of this version of amcl.")


def read_safely(path: Path) -> Any:
    """Return what `torch.save` wrote, if it is tensors and plain values: no code in it is run."""
    try:
        with safe_globals([Namespace]):  # many scripts save their options beside the weights
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file fails in as many ways as it can be damaged
        reason = first_line(error)
        if match := re.search(r"GLOBAL (\S+)", str(error)):
            reason = f"it holds {match[1]}, which is neither a tensor nor a plain value"
        raise RunError(f"{path} is no checkpoint that can be read safely: {reason}") from error


def keep_checkpoint(path: Path, name: str) -> None:
    """Copy a checkpoint to another name, under which it is kept for good."""
    with _writing(path.with_name(name)) as file, path.open("rb") as source:
        shutil.copyfileobj(source, file)


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Write tensors for other tools (safetensors), whole or not at all."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with _writing(path) as file:
        file.write(safetensors_bytes(plain, metadata))


def export_backbone(path: Path, backbone: Backbone, metadata: dict[str, Any]) -> None:
    """Write a backbone for other tools, with timm's keys and one entry of metadata."""
    # One entry: safetensors writes several in any order, and equal runs should be equal files.
    values = json.dumps({**metadata, **backbone.metadata()})
    save_tensors(path, backbone.network.state_dict(), {"amcl": values})
