"""Settings of small runs and of methods, by the names of options alone."""

from dataclasses import replace
from typing import Any

from amcl import recipes
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.methods import METHODS, MethodSettings
from amcl.temperature.settings import field_names


def small_config(recipe: str, **options: Any) -> Config:
    """A recipe with a network of an eighth of its width, and other options."""
    return with_values(recipes.recipe(recipe), {"width": 0.125} | options)


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
