"""Weights that other tools wrote: the search for those of a network in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from amcl.backbones import Backbone, some
from amcl.checkpoints.adapt import Table, adapted

_COUNTER = "num_batches_tracked"  # old files lack it, and no network computes with it


def tables_of(value: Any, location: str = "") -> dict[str, Table]:
    """Return every dict of tensors within the content of a file, by its location.

    Example:
        >>> list(tables_of({"state_dict": {"weight": torch.zeros(1)}, "epoch": 3}))
        ['state_dict.']
    """
    if not isinstance(value, Mapping):
        return {}
    tensors = {str(key): inner for key, inner in value.items() if isinstance(inner, torch.Tensor)}
    tables = {location: tensors} if tensors else {}
    for key, inner in value.items():
        tables |= tables_of(inner, f"{location}{key}.")
    return tables


@dataclass(frozen=True)
class Candidate:
    """A table of a file, and a prefix of its keys under which it holds keys of the network."""

    location: str
    """Location of the table in the file."""
    table: Table
    """All tensors of the table."""
    prefix: str
    """Prefix of the keys."""
    network: Table
    """State dict of the network."""

    @property
    def name(self) -> str:
        """Name for users: location and prefix, without the last dot."""
        return f"{self.location}{self.prefix}".rstrip(".")

    @property
    def description(self) -> str:
        """Words for the name, in a sentence."""
        return f"under {self.name!r}" if self.name else "at its top"

    @cached_property
    def under_prefix(self) -> Table:
        """Tensors of the table under the prefix, by key without the prefix."""
        n = len(self.prefix)
        return {k[n:]: v for k, v in self.table.items() if k.startswith(self.prefix)}

    @cached_property
    def matches(self) -> Table:
        """Tensors that have a key of the network, by that key."""
        return {key: v for key, v in self.under_prefix.items() if key in self.network}

    @cached_property
    def others(self) -> list[str]:
        """Keys under the prefix that the network does not have."""
        return [key for key in self.under_prefix if key not in self.network]

    @cached_property
    def missing(self) -> list[str]:
        """Keys of the network that the table does not have."""
        needed = (key for key in self.network if not key.endswith(_COUNTER))
        return [key for key in needed if key not in self.matches]

    @cached_property
    def wrong_shapes(self) -> list[str]:
        """Keys whose tensors have another shape than those of the network."""
        pairs = ((k, v, self.matches.get(k)) for k, v in self.network.items())
        return [k for k, v, match in pairs if match is not None and match.shape != v.shape]

    @property
    def fits(self) -> bool:
        """True if all weights of the network are here, in their shapes."""
        return not self.missing and not self.wrong_shapes

    def has_prefix(self, prefix: str) -> bool:
        """Return whether a prefix that the user typed is the name, or the end of it."""
        return f".{self.name}".endswith(f".{prefix.rstrip('.')}")


def load_weights(
    backbone: Backbone,
    tables: dict[str, Table],
    file: object,
    prefix: str | None = None,
    adapt: bool = False,
) -> list[str]:
    """Find the weights of a backbone in a file and load all of them.

    The weights are under a prefix p if p + key is in the file for every key of the network.

    Args:
        backbone: The backbone.
        tables: Tensors of the file by location, as `tables_of` returns them.
        file: Name of the file for messages.
        prefix: Prefix to take, where several would do.
        adapt: Resample weights for other patches, positions or channels to those of the backbone.

    Returns:
        Notes on what was found, and on what was left out.
    """
    network: Table = backbone.network.state_dict()
    name = backbone.settings.name
    candidates = _candidates(tables, network)
    if not candidates:
        keys = [f"{location}{key}" for location, table in tables.items() for key in table]
        content = f"its keys are {some(keys)}" if keys else "it holds no named tensors at all"
        raise ValueError(f"{file} holds nothing of {name}: {content}. Name the model it is of.")
    if prefix is not None:
        candidates = [c for c in candidates if c.has_prefix(prefix)]
        if not candidates:
            raise ValueError(
                f"{file} holds nothing of {name} under the prefix {prefix!r}: leave it out, and "
                "the prefix is found or the choice is listed."
            )
    changes: dict[str, list[str]] = {}
    if adapt:
        candidates = [_adapted(c, backbone, file, changes) for c in candidates]
    fitting = [c for c in candidates if c.fits]
    if not fitting:
        raise ValueError(_no_fit(max(candidates, key=_closeness), file, name))
    if len(fitting) > 1:
        names = ", ".join(repr(c.name) for c in fitting)
        raise ValueError(f"{file} holds {name} several times: choose a prefix, one of {names}.")
    chosen = fitting[0]
    _check_same_model(chosen, backbone, file)
    backbone.load({key: chosen.matches.get(key, value) for key, value in network.items()}, file)
    return _notes(chosen) + changes.get(chosen.name, [])


def _adapted(
    candidate: Candidate, backbone: Backbone, file: object, changes: dict[str, list[str]]
) -> Candidate:
    """Return a candidate with the weights of the input adapted; `changes` gets notes on them."""
    if candidate.missing or candidate.fits:
        return candidate
    matches, notes = adapted(candidate.matches, backbone.network, file)
    changes[candidate.name] = notes
    table = candidate.table | {candidate.prefix + key: value for key, value in matches.items()}
    return replace(candidate, table=table)


def _candidates(tables: dict[str, Table], network: Table) -> list[Candidate]:
    """Return a candidate for each prefix that precedes a key of the network in the file."""
    candidates: dict[tuple[str, str], Candidate] = {}
    for location, table in tables.items():
        for key in table:
            words = key.split(".")
            for n in range(len(words)):
                if ".".join(words[n:]) in network:
                    prefix = "".join(f"{word}." for word in words[:n])
                    candidates[location, prefix] = Candidate(location, table, prefix, network)
    return list(candidates.values())


def _closeness(candidate: Candidate) -> tuple[int, int]:
    count = len(candidate.matches)
    return count - len(candidate.wrong_shapes), count


def _no_fit(best: Candidate, file: object, name: str) -> str:
    """Return the error message for the candidate that is closest to the network."""
    if best.missing:
        return (
            f"{file} does not hold all of {name}: {best.description}, where most of it is, "
            f"{len(best.missing)} of {len(best.network)} keys are missing: {some(best.missing)}. "
            f"{_missing_hint(best)}"
        )
    key = best.wrong_shapes[0]
    shape = best.matches[key].shape
    expected = best.network[key].shape
    count = len(best.wrong_shapes) - 1
    more = f", and so are {count} more" if count else ""
    return (
        f"{file} holds another {name}: {best.description}, {key} is {tuple(shape)} instead of "
        f"{tuple(expected)}{more}. {_shape_hint(key, shape, expected)}"
    )


_SMALL = "It has the stem for small images: use stem 'small' (--stem small)."
_STANDARD = "It has the stem for large images: use stem 'standard' (--stem standard)."


def _missing_hint(best: Candidate) -> str:
    if "conv1.0.weight" in best.missing and "conv1.weight" in best.others:
        return _SMALL
    if "conv1.weight" in best.missing and "conv1.0.weight" in best.others:
        return _STANDARD
    return "Name the model that it is of (--backbone)."


def _shape_hint(key: str, shape: torch.Size, expected: torch.Size) -> str:
    same_length = len(shape) == len(expected)
    if same_length and len(shape) == 4 and shape[1] != expected[1] and shape[2:] == expected[2:]:
        return (
            f"It is of images of {shape[1]} channels: give {shape[1]} means and standard "
            "deviations (--mean, --std), or name the model that it is of (--backbone)."
        )
    is_stem = same_length and len(shape) == 4 and shape[1] == expected[1]
    if is_stem and shape[2:] != expected[2:]:
        return _SMALL if shape[-1] < expected[-1] else _STANDARD
    if key == "pos_embed":
        return "Give the size of the images it was trained on (--image-size)."
    if same_length and shape[0] != expected[0]:
        factor = shape[0] / expected[0]
        return f"Its width is {factor:g} times that (--width), or it is another model."
    return "Name the model that it is of (--backbone)."


def _check_same_model(chosen: Candidate, backbone: Backbone, file: object) -> None:
    """Raise an error if the file is of a deeper network, which holds the shallower one."""
    classifier = backbone.network.pretrained_cfg.get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    parts = {key.split(".")[0] for key in chosen.network}
    more = [
        key
        for key in chosen.others
        if key.split(".")[0] in parts and not key.startswith(tuple(f"{head}." for head in heads))
    ]
    if more:
        raise ValueError(
            f"{file} holds more than {backbone.settings.name} has: {some(more)}. It is of a "
            "larger model: name that one (--backbone)."
        )


def _notes(chosen: Candidate) -> list[str]:
    notes = [f"weights found under {chosen.name!r}"] if chosen.name else []
    used = {chosen.prefix + key for key in chosen.matches}
    unused = [key for key in chosen.table if key not in used]
    if unused:
        notes.append(f"left out {len(unused)} of the file's tensors: {some(unused)}")
    if len(chosen.matches) < len(chosen.network):
        notes.append("the file does not count batches, so batch norm's counters are 0")
    return notes
