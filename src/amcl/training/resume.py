"""Checks that a resumed run is still the run that its checkpoint is of."""

import shlex
from collections.abc import Mapping
from typing import Any

from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.config.fields import differing, value_of
from amcl.config.options import settings_of
from amcl.data import Images
from amcl.environment import amcl_version
from amcl.errors import RunError

FREE = ("epochs",)
"""Settings that change what is learned and that a resumed run may change all the same."""


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
    state: Mapping[str, Any], config: Config, images: Images, folder: RunFolder
) -> None:
    """Raise an error if images, settings or amcl are others than those of a checkpoint.

    Args:
        state: The checkpoint.
        config: Settings of the resumed run.
        images: Images of the resumed run.
        folder: The run folder.

    Raises:
        RunError: Something has changed; the message says what.
    """
    changes = [
        *_changed_settings(state["config"], config),
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


def _changed_settings(text: str, config: Config) -> list[str]:
    stored = Config.from_toml(text, "the configuration in the checkpoint")
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
