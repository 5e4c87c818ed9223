"""Checks that a checkpoint can be resumed from, and is of the run that is resumed."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import torch

from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.config.fields import differing, value_of
from amcl.config.options import settings_of
from amcl.data import Images
from amcl.environment import amcl_version
from amcl.errors import RunError, first_line
from amcl.text_files import require
from amcl.training.trainer import Trainer

FREE = ("epochs",)
"""Settings that change what is learned and that a resumed run may change all the same."""


class _Images(TypedDict):
    count: int
    kind: str
    identity: str


class _Run(TypedDict):
    """What the checkpoint of a run says of it."""

    config: str
    version: str
    images: _Images


class _Training(TypedDict):
    """What any training resumes from."""

    step: int
    loss_sum: torch.Tensor
    optimizer: dict[str, Any]
    precision: dict[str, Any]


def restore(trainer: Trainer, state: Mapping[str, Any], path: Path) -> None:
    """Load the state of a training from a checkpoint.

    Args:
        trainer: The trainer.
        state: The checkpoint.
        path: Its file, for errors.

    Raises:
        RunError: The checkpoint lacks something, or is of another training. The trainer is then of
            no use.
    """
    expected = trainer.optimizer.state_dict()
    try:
        require(state, _Training, path)
        if not state["step"] >= 0 or not state["loss_sum"].isfinite().all():
            raise ValueError("it has a step below 0, or a loss that is not finite")
        _check_groups(state["optimizer"]["param_groups"], expected["param_groups"])
        trainer.load_state_dict(dict(state))
        _check_optimizer(trainer, expected)
    # The state of modules, optimizers and precision has as many forms as there are of these.
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error) if str(path) in str(error) else f"{path}: {first_line(error)}"
        raise RunError(
            f"the checkpoint does not fit the training that it should be of. {reason.rstrip('.:')}."
        ) from error


def _check_groups(stored: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Raise an error if another version of amcl has divided the weights differently."""
    sizes = [len(group["params"]) for group in stored]
    new_sizes = [len(group["params"]) for group in expected]
    missing = {name for old, new in zip(stored, expected, strict=False) for name in {*new} - {*old}}
    if sizes != new_sizes or missing:
        lacking = f" without {', '.join(sorted(missing))}" if missing else ""
        raise ValueError(
            f"its optimizer has groups of {sizes} weights{lacking}, and that of this version of "
            f"amcl has groups of {new_sizes}, because it decides differently which of them decay: "
            "resume with the version that began the run, or start a new run from its settings "
            "with --config and from its weights with --init"
        )


def _check_optimizer(trainer: Trainer, expected: dict[str, Any]) -> None:
    """Raise an error if the loaded state of the optimizer would fail in the next step."""
    for group, new in zip(trainer.optimizer.param_groups, expected["param_groups"], strict=True):
        for name, value in new.items():
            if name != "params" and type(group[name]) is not type(value):
                raise ValueError(f"{name} of the optimizer is {group[name]!r:.60}")
    for parameter, state in trainer.optimizer.state.items():
        for name, value in state.items():
            fits = isinstance(value, torch.Tensor) and value.shape in (parameter.shape, ())
            if value is not None and not fits:
                raise ValueError(f"{name} of the optimizer does not have the shape of its weights")


def describe_images(images: Images) -> dict[str, Any]:
    """Return what a checkpoint says of the training images.

    Args:
        images: The images.

    Returns:
        Their number, and a hash that changes with them. Images in files have one of names and
        sizes, images in memory one of pixels.
    """
    return {
        "count": len(images),
        "kind": type(images).__name__,
        "identity": images.identity(),
    }


def check_unchanged(
    state: Mapping[str, Any], config: Config, images: Images, folder: RunFolder, path: Path
) -> None:
    """Raise an error if images, settings or amcl are others than those of a checkpoint.

    Args:
        state: The checkpoint.
        config: Settings of the resumed run.
        images: Images of the resumed run.
        folder: The run folder.
        path: File of the checkpoint, for errors.

    Raises:
        RunError: Something has changed; the message says what.
    """
    try:
        require(state, _Run, path)
    except ValueError as error:
        raise RunError(str(error)) from None
    changes = [
        *_changed_settings(state["config"], config, path),
        *_changed_images(state["images"], images),
    ]
    if state["version"] != amcl_version():
        changes.append(
            f"the checkpoint was written by amcl {state['version']}, and this is {amcl_version()}"
        )
    if changes:
        run = shlex.quote(str(folder.path))
        raise RunError(
            f"{folder.path} has changed since its checkpoint was written, so that a resumed run "
            f"would not be the run that was stopped: {'; '.join(changes)}. Undo that, or resume "
            f"nevertheless with --accept-changes, or start a new run from its settings with "
            f"--config {run}/config.toml."
        )


def _changed_settings(text: str, config: Config, path: Path) -> list[str]:
    stored = Config.from_toml(text, f"the configuration in {path}")
    names = [
        name
        for name in differing(stored, config)
        if name not in FREE and (name == "method" or _is_learned(config, name))
    ]
    return [
        f"--{name.replace('_', '-')} was {_value(stored, name)} and is {_value(config, name)}"
        for name in names
    ]


def _is_learned(config: Config, name: str) -> bool:
    return settings_of(config)[name].effect == "learning"


def _value(config: Config, name: str) -> Any:
    return config.method.name if name == "method" else value_of(config, name)


def _changed_images(stored: Mapping[str, Any], images: Images) -> list[str]:
    if stored["count"] != len(images):
        return [f"there were {stored['count']} training images and there are {len(images)}"]
    current = describe_images(images)
    # The two ways to store images have different hashes of the same images.
    if stored["kind"] == current["kind"] and stored["identity"] != current["identity"]:
        return ["the training images are others, though as many"]
    return []
