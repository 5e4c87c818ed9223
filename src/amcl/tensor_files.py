"""Files of tensors in the format of safetensors, with metadata and a checksum of both."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from amcl.files import digest
from amcl.text_files import parse_json

CHECKSUM = "sha256"


def tensor_bytes(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, Any]) -> bytes:
    """Return the contents of a file that holds tensors and metadata.

    Args:
        tensors: Tensors by name.
        metadata: Values that JSON can hold. A checksum of them and of the tensors is added.

    Returns:
        The bytes of a file that any tool for safetensors reads.

    Example:
        >>> contents = tensor_bytes({"weight": torch.ones(2)}, {"epoch": 3})
        >>> b"epoch" in contents and b"sha256" in contents
        True
    """
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    checked = {**metadata, CHECKSUM: _checksum(plain, metadata)}
    # One entry: safetensors writes several in any order, and equal runs should be equal files.
    return save(plain, {"amcl": json.dumps(checked)})


def read_metadata(file: Path) -> dict[str, Any] | None:
    """Return the metadata that amcl wrote into a file, without reading the tensors.

    Args:
        file: A safetensors file.

    Returns:
        The metadata, which are not compared with their checksum; None if others wrote the file.
    """
    with _open(file) as stored:
        metadata = _metadata(file, stored)
    if metadata is not None:
        metadata.pop(CHECKSUM, None)
    return metadata


def read_safetensors(file: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any] | None]:
    """Return the tensors of a file and the metadata that amcl wrote; nothing in it is executed.

    Args:
        file: A safetensors file.

    Returns:
        The tensors by name, and the metadata, None if others wrote the file.

    Raises:
        ValueError: The file is damaged.
    """
    with _open(file) as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        metadata = _metadata(file, stored)
    if metadata is not None:
        checksum = metadata.pop(CHECKSUM, None)
        if checksum != _checksum(tensors, metadata):
            raise ValueError(
                f"{file} is damaged, or was changed by another tool: its checksum does not match. "
                "Write it again, or put back a copy."
            )
    return tensors, metadata


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    try:
        with safe_open(file, "pt") as stored:
            yield stored
    except SafetensorError as error:
        raise ValueError(f"{file} is no safetensors file, or damaged: {error}.") from error


def _metadata(file: Path, stored: Any) -> dict[str, Any] | None:
    """Return the entry of amcl; None if there is none."""
    text = (stored.metadata() or {}).get("amcl")
    if text is None:
        return None
    return parse_json(text, f"the metadata of {file}")


def _checksum(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, Any]) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of tensors, and of the metadata."""

    def parts() -> Iterable[bytes | memoryview]:
        yield json.dumps(metadata, sort_keys=True).encode()
        for name in sorted(tensors):
            tensor = tensors[name]
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            yield tensor.flatten().view(torch.uint8).numpy().data

    return digest(parts())
