"""Checkpoints that are whole or not there, and that run no code when they are read."""

import os
import re
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as safetensors_bytes
from torch.serialization import safe_globals

from amcl.training.errors import RunError

FORMAT = 1


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint so that `path` always holds a whole one: the old or the new."""
    temporary = path.with_name(f"{path.name}.writing")
    try:
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:  # torch wraps a full disk in a RuntimeError
        temporary.unlink(missing_ok=True)
        kept = "the checkpoint before it is untouched" if path.exists() else "there is none yet"
        raise RunError(f"could not write {path} ({error}); {kept}. Is the disk full?") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of a run."""
    if not path.is_file():
        raise RunError(f"there is no checkpoint {path}: the run had not saved one yet.")
    state: dict[str, Any] = read_safely(path)
    check_format(path, state)
    return state


def check_format(path: Path, state: Any) -> None:
    """An error unless this is what this version saves."""
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
    kept = path.with_name(name)
    temporary = kept.with_name(f"{name}.writing")
    try:
        shutil.copyfile(path, temporary)
        temporary.replace(kept)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"could not write {kept} ({error}). Is the disk full?") from error


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Write tensors for other tools (safetensors), whole or not at all."""
    temporary = path.with_name(f"{path.name}.writing")
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        temporary.write_bytes(safetensors_bytes(plain, metadata))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"could not write {path} ({error}). Is the disk full?") from error


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
