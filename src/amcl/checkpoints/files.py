"""Checkpoint files: whole or not there, with a checksum, read without running code in them.

A checkpoint is what `torch.save` writes, a ZIP archive, whose comment has the SHA-256 of all bytes
before it.
"""

import hashlib
import os
import re
import shutil
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch
from torch.serialization import safe_globals

from amcl.backbones import Backbone
from amcl.errors import RunError, first_line
from amcl.files import whole_file
from amcl.tensor_files import tensor_bytes

FORMAT = 2
_LABEL = b"amcl-sha256:"
_COMMENT = len(_LABEL) + hashlib.sha256().digest_size * 2


def save_checkpoint(path: Path, state: dict[str, Any], keep: int = 1) -> None:
    """Write a checkpoint so that `path` always holds a whole one: the old or the new.

    Args:
        path: The file.
        state: Tensors and plain values.
        keep: Number of checkpoints to keep. Earlier ones are called ``last-1.pt``, ``last-2.pt``, …
            beside ``last.pt``.
    """
    previous = "the checkpoint before it is untouched" if path.exists() else "there is none yet"
    with _writing(path, f"; {previous}", older_checkpoints(path, keep)) as file:
        writer = _HashingWriter(file)
        torch.save({"format": FORMAT, **state}, writer)  # type: ignore[arg-type]
        file.seek(-2, os.SEEK_END)  # the length of the comment, which ends the archive
        file.write(_COMMENT.to_bytes(2, "little"))
        file.write(_LABEL + writer.sha256.hexdigest().encode())


def older_checkpoints(path: Path, keep: int) -> list[Path]:
    """Return the names of earlier checkpoints, the newest first.

    >>> [older.name for older in older_checkpoints(Path("last.pt"), 3)]
    ['last-1.pt', 'last-2.pt']
    """
    return [path.with_name(f"{path.stem}-{age}{path.suffix}") for age in range(1, keep)]


class _HashingWriter:
    """A file that is written to, and the SHA-256 of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


@contextmanager
def _writing(path: Path, previous: str = "", older: Sequence[Path] = ()) -> Iterator[IO[bytes]]:
    """Open a file that is written whole or not at all; an error says what became of the old one."""
    try:
        with whole_file(path, older) as file:
            yield file
    except (OSError, RuntimeError) as error:  # torch wraps a full disk in a RuntimeError
        raise RunError(f"could not write {path} ({error}){previous}. Is the disk full?") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of a run; an error if it is missing, damaged or of another version."""
    if not path.is_file():
        raise RunError(f"there is no checkpoint {path}: the run had not saved one yet.")
    state: dict[str, Any] = read_safely(path)
    check_format(path, state)
    return state


def _is_whole(path: Path) -> bool:
    """Return whether a file of `save_checkpoint` matches its checksum; False for others."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _COMMENT, 0))
        comment = file.read()
        file.seek(0)
        sha256 = hashlib.sha256()
        left = size - _COMMENT - 2
        while left > 0:
            block = file.read(min(left, 1 << 20))
            sha256.update(block)
            left -= len(block)
        sha256.update(bytes(2))  # the length of the comment was 0 when the checksum was made
    return comment == _LABEL + sha256.hexdigest().encode()


def check_format(path: Path, state: Any) -> None:
    """Raise an error unless this is a checkpoint of this version."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise RunError(f"{path} is not a checkpoint of this version of amcl.")
    if not _is_whole(path):
        raise RunError(f"{path} is damaged: it does not match its checksum.")


def read_safely(path: Path, *, mmap: bool = False) -> Any:
    """Return what `torch.save` wrote, if it is tensors and plain values: no code in it is run.

    Args:
        path: The file.
        mmap: Read tensors only once they are used.
    """
    try:
        with safe_globals([Namespace]):  # many scripts save their options beside the weights
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # a damaged file fails in as many ways as it can be damaged
        reason = first_line(error)
        if match := re.search(r"GLOBAL (\S+)", str(error)):
            reason = f"it holds {match[1]}, which is neither a tensor nor a plain value"
        raise RunError(f"{path} is no checkpoint that can be read safely: {reason}") from error


def keep_checkpoint(path: Path, name: str) -> None:
    """Copy a checkpoint to another name, under which it is kept for good."""
    with _writing(path.with_name(name)) as file, path.open("rb") as source:
        shutil.copyfileobj(source, file)


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors for other tools (safetensors) with metadata, whole or not at all."""
    with _writing(path) as file:
        file.write(tensor_bytes(tensors, metadata))


def export_backbone(
    path: Path,
    backbone: Backbone,
    metadata: dict[str, Any],
    weights: dict[str, torch.Tensor] | None = None,
) -> None:
    """Write a backbone for other tools, with timm's keys and what is needed to make it again.

    Args:
        path: The file.
        backbone: The backbone.
        metadata: What a model needs to be used without its data set.
        weights: Its weights, where the backbone itself is sharded.
    """
    tensors = backbone.network.state_dict() if weights is None else weights
    save_tensors(path, tensors, {**metadata, **backbone.metadata()})
