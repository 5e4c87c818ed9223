"""Settings of methods by the names of options alone."""

from dataclasses import replace
from typing import Any

from amcl.methods import MethodSettings, settings_class
from amcl.temperature.settings import field_names


def method_settings(name: str, *, temperature: str = "constant", **options: Any) -> Any:
    """Settings of a method, those of its temperature scheme among the options."""
    return change(settings_class(name)(), temperature=temperature, **options)


def change(settings: MethodSettings, *, temperature: str | None = None, **options: Any) -> Any:
    """The settings with other values."""
    changed: Any = settings
    if settings.has_heads:
        changed = changed.with_temperature(temperature or changed.temperature.name)
        names = field_names(changed.temperature.name)
        scheme = {key: options.pop(key) for key in names if key in options}
        options["temperature"] = replace(changed.temperature, **scheme)
    return replace(changed, **options)
