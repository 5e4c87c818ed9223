"""Settings of small runs and of methods, by the names of options alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from amcl import recipes
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.methods import METHODS, MethodSettings
from amcl.temperature.settings import field_names


@contextmanager
def few_builtin_images() -> Iterator[None]:
    """The built-in set has 160 images, and 40 to probe with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amcl.data.builtin._TRAIN", 160)
        patch.setattr("amcl.data.builtin._QUERIES", 40)
        yield


def small_config(recipe: str, **options: Any) -> Config:
    """A recipe with a network of an eighth of its width, and other options."""
    return with_values(recipes.recipe(recipe), {"width": 0.125} | options)


def small_run(method: str = "simclr", amcl: bool = True, **options: Any) -> Config:
    """Two epochs of four steps on a built-in set of 160 images (`few_images`)."""
    steps = {"epochs": 2, "batch_size": 40, "probe_every": 1, "log_every": 1}
    queue = {"queue": 120} if method in ("moco", "nnclr") else {}
    return small_config(f"builtin-{method}{'-amcl' * amcl}", **steps | queue | options)


def method_settings(name: str, *, temperature: str = "constant", **options: Any) -> Any:
    """Settings of a method, those of its temperature scheme among the options."""
    return change(METHODS[name].settings_class(), temperature=temperature, **options)


def change(settings: MethodSettings, *, temperature: str | None = None, **options: Any) -> Any:
    """The settings with other values."""
    changed: Any = settings
    if settings.has_heads:
        changed = changed.with_temperature(temperature or changed.temperature.name)
        names = field_names(changed.temperature.name)
        scheme = {key: options.pop(key) for key in names if key in options}
        options["temperature"] = replace(changed.temperature, **scheme)
    return replace(changed, **options)
