"""Weights that other tools wrote: where in a file those of a network lie."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from amcl.backbones import Backbone, some

Table = dict[str, torch.Tensor]

_COUNTER = "num_batches_tracked"  # old files lack it, and no network computes with it


def tables_of(value: Any, place: str = "") -> dict[str, Table]:
    """Every dict of tensors within what a file holds, by its place: {"state_dict.": {…}}."""
    if not isinstance(value, Mapping):
        return {}
    own = {str(key): inner for key, inner in value.items() if isinstance(inner, torch.Tensor)}
    found = {place: own} if own else {}
    for key, inner in value.items():
        found |= tables_of(inner, f"{place}{key}.")
    return found


@dataclass(frozen=True)
class Candidate:
    """A table and a prefix under which it holds keys of the network."""

    place: str
    table: Table
    prefix: str
    own: Table
    """The network's state dict."""

    @property
    def name(self) -> str:
        """What a user calls it: place and prefix, without the last dot."""
        return f"{self.place}{self.prefix}".rstrip(".")

    @property
    def where(self) -> str:
        return f"under {self.name!r}" if self.name else "at its top"

    @cached_property
    def found(self) -> Table:
        """The tensors that have a key of the network, by that key."""
        n = len(self.prefix)
        under = (key[n:] for key in self.table if key.startswith(self.prefix))
        return {key: self.table[self.prefix + key] for key in under if key in self.own}

    @cached_property
    def missing(self) -> list[str]:
        needed = (key for key in self.own if not key.endswith(_COUNTER))
        return [key for key in needed if key not in self.found]

    @cached_property
    def misfits(self) -> list[str]:
        """Keys whose tensors have another shape than the network's."""
        return [key for key in self.own if self._misfit(key)]

    @cached_property
    def others(self) -> list[str]:
        """Keys under the prefix that the network does not have."""
        n = len(self.prefix)
        under = (key[n:] for key in self.table if key.startswith(self.prefix))
        return [key for key in under if key not in self.own]

    @property
    def fits(self) -> bool:
        return not self.missing and not self.misfits

    def answers_to(self, prefix: str) -> bool:
        """Return whether the user means this one: the whole name or the end of it."""
        return f".{self.name}".endswith(f".{prefix.rstrip('.')}")

    def _misfit(self, key: str) -> bool:
        return key in self.found and self.found[key].shape != self.own[key].shape


def load_weights(
    backbone: Backbone, tables: dict[str, Table], file: object, prefix: str | None = None
) -> list[str]:
    """Find the backbone's weights in a file and take them, whole. Returns what is worth a note.

    The weights lie under the prefix p with p + key in the file for every key of the network.
    """
    own: Table = backbone.network.state_dict()
    name = backbone.settings.name
    candidates = _candidates(tables, own)
    if not candidates:
        keys = [f"{place}{key}" for place, table in tables.items() for key in table]
        has = f"its keys are {some(keys)}" if keys else "it holds no named tensors at all"
        raise ValueError(f"{file} holds nothing of {name}: {has}. Name the model it is of.")
    if prefix is not None:
        candidates = [c for c in candidates if c.answers_to(prefix)]
        if not candidates:
            raise ValueError(
                f"{file} holds nothing of {name} under the prefix {prefix!r}: leave it out, and "
                "the prefix is found or the choice is listed."
            )
    fitting = [c for c in candidates if c.fits]
    if not fitting:
        raise ValueError(_no_fit(max(candidates, key=_closeness), file, name))
    if len(fitting) > 1:
        names = ", ".join(repr(c.name) for c in fitting)
        raise ValueError(f"{file} holds {name} several times: choose a prefix, one of {names}.")
    chosen = fitting[0]
    _same_model(chosen, backbone, file)
    backbone.load({key: chosen.found.get(key, value) for key, value in own.items()}, file)
    return _notes(chosen)


def _candidates(tables: dict[str, Table], own: Table) -> list[Candidate]:
    """One for each prefix that stands before a key of the network somewhere in the file."""
    found: dict[tuple[str, str], Candidate] = {}
    for place, table in tables.items():
        for key in table:
            words = key.split(".")
            for n in range(len(words)):
                if ".".join(words[n:]) in own:
                    prefix = "".join(f"{word}." for word in words[:n])
                    found[place, prefix] = Candidate(place, table, prefix, own)
    return list(found.values())


def _closeness(candidate: Candidate) -> tuple[int, int]:
    return len(candidate.found) - len(candidate.misfits), len(candidate.found)


def _no_fit(best: Candidate, file: object, name: str) -> str:
    if best.missing:
        told = (
            f"{file} does not hold all of {name}: {best.where}, where most of it is, "
            f"{len(best.missing)} of {len(best.own)} keys are missing: {some(best.missing)}."
        )
        return f"{told} {_missing_hint(best)}"
    key = best.misfits[0]
    given, own = best.found[key].shape, best.own[key].shape
    more = f", and so are {len(best.misfits) - 1} more" if len(best.misfits) > 1 else ""
    told = (
        f"{file} holds another {name}: {best.where}, {key} is {tuple(given)} instead of "
        f"{tuple(own)}{more}."
    )
    return f"{told} {_shape_hint(key, given, own)}"


_SMALL = "It has the stem for small images: use stem 'small' (--stem small)."
_STANDARD = "It has the stem for large images: use stem 'standard' (--stem standard)."


def _missing_hint(best: Candidate) -> str:
    if "conv1.0.weight" in best.missing and "conv1.weight" in best.others:
        return _SMALL
    if "conv1.weight" in best.missing and "conv1.0.weight" in best.others:
        return _STANDARD
    return "Name the model that it is of (--backbone)."


def _shape_hint(key: str, given: torch.Size, own: torch.Size) -> str:
    if len(given) == len(own) == 4 and given[1] == own[1] == 3 and given[2:] != own[2:]:
        return _SMALL if given[-1] < own[-1] else _STANDARD
    if key == "pos_embed":
        return "Give the size of the images it was trained on (--image-size)."
    if len(given) == len(own) and given[0] != own[0]:
        return f"Its width is {given[0] / own[0]:g} times that (--width), or it is another model."
    return "Name the model that it is of (--backbone)."


def _same_model(chosen: Candidate, backbone: Backbone, file: object) -> None:
    """A deeper network holds a shallower one: what is left over must not be more of the same."""
    classifier = backbone.network.pretrained_cfg.get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    parts = {key.split(".")[0] for key in chosen.own}
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
    taken = {chosen.prefix + key for key in chosen.found}
    left = [key for key in chosen.table if key not in taken]
    if left:
        notes.append(f"left out {len(left)} of the file's tensors: {some(left)}")
    if len(chosen.found) < len(chosen.own):
        notes.append("the file does not count batches, so batch norm's counters are 0")
    return notes
