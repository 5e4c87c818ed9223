"""The columns of a table that hold images and labels."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from amcl.data.packed import NO_LABEL
from amcl.printable import printable

if TYPE_CHECKING:
    import pyarrow as pa

_IMAGES = ("image", "img", "jpg", "jpeg", "png", "picture", "photo", "pixels")
_LABELS = ("label", "labels", "class", "cls", "category", "target", "fine_label")
_BYTES = "bytes"  # the field of an image in the columns of Hugging Face


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Args:
        image: Name of that of encoded images.
        in_struct: Whether an image is the field `bytes` of a struct, as Hugging Face has it.
        label: Name of that of labels; None without.
        names: Names of the classes, where labels are numbers that have names.
        others: Further columns that may be labels.
    """

    image: str
    in_struct: bool
    label: str | None = None
    names: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def to_read(self) -> str:
        """What of the column of images is read: not the paths beside the bytes."""
        return f"{self.image}.{_BYTES}" if self.in_struct else self.image


def find_columns(schema: "pa.Schema") -> Columns:
    """Return the columns of images and labels: by what Hugging Face says of them, or their names.

    Args:
        schema: Names and types of all columns.

    Raises:
        ValueError: There is no column of encoded images, or it cannot be told which one it is.
    """
    features = _features(schema)
    images = {field.name: _is_struct(field.type) for field in schema if _holds_bytes(field.type)}
    image = _choose([n for n in images if features.get(n, {}).get("_type") == "Image"], images)
    labels = [field.name for field in schema if field.name != image and _may_be_label(field.type)]
    declared = [n for n in labels if features.get(n, {}).get("_type") == "ClassLabel"]
    usual = sorted((n for n in labels if n in _LABELS), key=_LABELS.index)
    chosen = [n for n in usual if n in declared] or declared or usual
    label = chosen[0] if chosen else None
    names = features.get(label or "", {}).get("names")
    has_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return Columns(
        image,
        images[image],
        label,
        tuple(names or ()) if has_names else (),
        tuple(n for n in dict.fromkeys([*declared, *usual]) if n != label),
    )


def _choose(declared: Sequence[str], images: dict[str, bool]) -> str:
    if not images:
        raise ValueError(
            "no column of encoded images: one is binary, or a struct with a binary field `bytes`"
        )
    usual = sorted((n for n in images if n.lower() in _IMAGES), key=lambda n: n.lower())
    candidates = list(declared) or usual or list(images)
    first = next((n for n in _IMAGES if n in candidates), candidates[0])
    if first in _IMAGES or len(candidates) == 1:
        return first
    raise ValueError(
        f"several columns may hold the images, {', '.join(map(printable, candidates[:5]))}: name "
        "the one that does `image`"
    )


def image_bytes(column: Any, columns: Columns) -> Any:
    """Return the bytes of images in a column of them, as an array of Arrow."""
    import pyarrow.compute as pc

    return pc.struct_field(column, _BYTES) if columns.in_struct else column


def label_texts(column: Any, columns: Columns) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return the labels in a column.

    Args:
        column: The column, a chunked array of Arrow.
        columns: Which it is.

    Returns:
        The number of the text of each label, `NO_LABEL` for none, and the texts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # of an empty column
        return np.empty(0, np.int32), ()
    numbers = pc.fill_null(encoded.indices, NO_LABEL).to_numpy(zero_copy_only=False)
    texts: list[str | None] = []
    for value in encoded.dictionary.to_pylist():
        if isinstance(value, str):
            texts.append(value.strip() or None)
        elif value is None or value < 0:
            texts.append(None)
        else:
            texts.append(columns.names[value] if value < len(columns.names) else str(int(value)))
    known = list(dict.fromkeys(text for text in texts if text is not None))
    place = {text: number for number, text in enumerate(known)}
    # The last one is that of NO_LABEL, which is -1.
    table = np.array([*(NO_LABEL if t is None else place[t] for t in texts), NO_LABEL], np.int32)
    return table[numbers], tuple(known)


def _features(schema: "pa.Schema") -> dict[str, dict[str, Any]]:
    """Return what Hugging Face says of the columns of a table; nothing where that is damaged."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: about for name, about in features.items() if isinstance(about, dict)}
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return {}


def _is_struct(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_struct(kind))


def _holds_bytes(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        index = kind.get_field_index(_BYTES)
        return index >= 0 and _holds_bytes(kind.field(index).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _may_be_label(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )
