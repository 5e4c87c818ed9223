"""Rules by which settings have an effect, so that none is ignored silently."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from amcl.config.config import Config
from amcl.config.options import RANGE, TEMPERATURE, settings_of, values_of
from amcl.settings import Rule, Values
from amcl.temperature import temperature_names, temperature_settings
from amcl.temperature.settings import field_names, schemes_with


def rules_of(config: Config) -> tuple[Rule, ...]:
    """Return the rules that the settings of a configuration declare, those of all schemes too."""
    rules = [
        rule
        for section in dataclasses.fields(config)
        for rule in _declared(type(getattr(config, section.name)))
    ]
    if config.method.has_heads:
        rules += _rules_of_schemes(config)
    return tuple(rules)


def _rules_of_schemes(config: Config) -> list[Rule]:
    """Return rules of temperature schemes: a setting belongs to the schemes that have it."""
    rules = [
        _membership(name, "tau_lower" if name in RANGE else setting.field)
        for name, setting in settings_of(config).items()
        if setting.section == TEMPERATURE
    ]
    for scheme in temperature_names():
        rules += [_within(scheme, rule) for rule in _declared(temperature_settings(scheme))]
    return rules


def _declared(cls: type) -> list[Rule]:
    """Return the rules of a dataclass and of those that it inherits from."""
    return [rule for each in cls.__mro__ for rule in vars(each).get("rules", ())]


def _membership(name: str, field: str) -> Rule:
    return Rule(
        fields=(name,),
        depends=("temperature",),
        used=lambda values: field in field_names(values["temperature"]),
        belongs=f"--temperature {', '.join(schemes_with(field))}",
    )


def _within(scheme: str, rule: Rule) -> Rule:
    """Return a rule that holds where a temperature scheme is chosen."""
    return replace(
        rule,
        depends=("temperature", *rule.depends),
        used=lambda values: values["temperature"] != scheme or rule.used(values),
    )


def usual_values(config: Config) -> dict[str, Any]:
    """Return all values of a configuration, and defaults of what its scheme does not have.

    >>> usual_values(Config())["beta"]
    0.1
    """
    defaults: dict[str, Any] = {}
    if config.method.has_heads:
        for name in temperature_names():
            scheme = temperature_settings(name)()
            defaults |= {field: getattr(scheme, field) for field in field_names(name)}
    return defaults | values_of(config)


def broken_rule(
    rules: Sequence[Rule], values: Values, name: str, varied: Collection[str] = ()
) -> Rule | None:
    """Return the rule by which a run with these values ignores the field, if there is one.

    What depends on a field that is `varied` may be used in some runs.

    >>> config = Config()
    >>> broken_rule(rules_of(config), usual_values(config), "beta").belongs
    '--temperature adaptive, adaptive-negative, adaptive-positive, first-head'
    >>> broken_rule(rules_of(config), usual_values(config), "tau")
    """
    for rule in rules:
        decided = all(other in values and other not in varied for other in rule.depends)
        if name in rule.fields and decided and not rule.used(values):
            return rule
    return None


def conditions(config: Config, names: Collection[str]) -> set[str]:
    """Return the settings that decide whether some of these are used.

    >>> conditions(Config(), ["top_k", "lr"])
    {'form'}
    """
    return {
        other
        for rule in rules_of(config)
        if any(name in names for name in rule.fields)
        for other in rule.depends
    }


def check_used(
    configs: Sequence[Config],
    given: Collection[str],
    *,
    varied: Collection[str] = (),
    where: str = "",
) -> None:
    """Raise an error if all of the runs ignore fields that a user gave them.

    `varied` are other fields in which runs differ, as those of a grid do. `where` is the file that
    gave the fields; none: the command line.
    """
    values = usual_values(configs[0])
    broken: dict[str, list[str]] = {}
    for name in given:
        broken_by = [
            broken_rule(rules_of(config), usual_values(config), name, varied) for config in configs
        ]
        if (rule := broken_by[0]) is None or None in broken_by:
            continue
        has = " ".join(_option(other, values[other]) for other in _reasons(rule, values))
        broken.setdefault(f"{rule.belongs}: this run has {has}.", []).append(
            f"{name} = {values[name]!r}" if where else _option(name, values[name])
        )
    if broken:
        sentences = [
            f"{' and '.join(names)} belong{'s' * (len(names) == 1)} to {rest}"
            for rest, names in broken.items()
        ]
        raise ValueError(f"{where}: {' '.join(sentences)}" if where else " ".join(sentences))


def _reasons(rule: Rule, values: Values) -> list[str]:
    """The fields whose values break a rule, as far as they say anything."""
    return [name for name in rule.depends if name not in rule.fields and values[name] is not None]


def _option(name: str, value: Any) -> str:
    """A field and its value as they are typed.

    >>> _option("tau_lower", 0.05), _option("phi_gradient", False), _option("jitter", (0.4, 0.1))
    ('--tau-lower 0.05', '--no-phi-gradient', '--jitter 0.4 0.1')
    """
    words = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{words}" if value else f"--no-{words}"
    several = value if isinstance(value, tuple) else (value,)
    texts = [f"{each:g}" if isinstance(each, float) else str(each) or "''" for each in several]
    return " ".join([f"--{words}", *texts])
