"""Rules by which settings have an effect, so that none is ignored silently."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from amcl.config.config import Config
from amcl.config.options import RANGE, TEMPERATURE, settings_of, values_of
from amcl.settings import Rule, Values
from amcl.temperature import TEMPERATURES
from amcl.temperature.settings import field_names, schemes_with


def rules_of(config: Config) -> tuple[Rule, ...]:
    """Return the rules that the settings of a configuration declare.

    Args:
        config: The configuration.

    Returns:
        The rules, with those of all temperature schemes if the method has heads.
    """
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
    for scheme in TEMPERATURES:
        rules += [_within(scheme, rule) for rule in _declared(TEMPERATURES[scheme])]
    return rules


def _declared(cls: type) -> list[Rule]:
    """Return the rules of a dataclass and of those that it inherits from."""
    return [rule for each in cls.__mro__ for rule in vars(each).get("rules", ())]


def _membership(name: str, field: str) -> Rule:
    """Return the rule of a setting that some of the temperature schemes have."""
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
    """Return the values of a configuration, and defaults of settings that its scheme lacks.

    Args:
        config: The configuration.

    Returns:
        Values by the names of settings.

    Example:
        >>> usual_values(Config())["beta"]
        0.1
    """
    defaults: dict[str, Any] = {}
    if config.method.has_heads:
        for name in TEMPERATURES:
            scheme = TEMPERATURES[name]()
            defaults |= {field: getattr(scheme, field) for field in field_names(name)}
    return defaults | values_of(config)


def broken_rule(
    rules: Sequence[Rule], values: Values, name: str, varied: Collection[str] = ()
) -> Rule | None:
    """Return the rule by which a run ignores a setting, if there is one.

    Args:
        rules: Rules of the configuration.
        values: Values of its settings by name.
        name: Name of the setting.
        varied: Names of settings that differ between runs; rules that depend on them are not
            broken, since some of the runs may use the setting.

    Returns:
        The first rule that is broken, or None.

    Example:
        >>> config = Config()
        >>> broken_rule(rules_of(config), usual_values(config), "beta").belongs
        '--temperature adaptive, adaptive-negative, adaptive-positive, first-head, one-sided'
        >>> broken_rule(rules_of(config), usual_values(config), "tau")
    """
    for rule in rules:
        decided = all(other in values and other not in varied for other in rule.depends)
        if name in rule.fields and decided and not rule.used(values):
            return rule
    return None


def conditions(config: Config, names: Collection[str]) -> set[str]:
    """Return the settings on which it depends whether others have an effect.

    Args:
        config: The configuration.
        names: Names of the other settings.

    Returns:
        Names of settings.

    Example:
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
    names: Collection[str],
    *,
    varied: Collection[str] = (),
    where: str = "",
) -> None:
    """Raise an error if all of the runs ignore settings that a user set.

    Args:
        configs: Configurations of the runs.
        names: Names of the settings that the user set.
        varied: Names of other settings in which the runs differ, as those of a grid do.
        where: File that has the settings; the default is the command line.
    """
    runs = [(rules_of(config), usual_values(config)) for config in configs]
    values = runs[0][1]
    ignored: dict[str, list[str]] = {}  # settings by the reason
    for name in names:
        broken = [broken_rule(rules, of_run, name, varied) for rules, of_run in runs]
        if (rule := broken[0]) is None or None in broken:
            continue
        current = " ".join(_option(other, values[other]) for other in _reasons(rule, values))
        ignored.setdefault(f"{rule.belongs}: this run has {current}.", []).append(
            f"{name} = {values[name]!r}" if where else _option(name, values[name])
        )
    if ignored:
        sentences = [
            f"{' and '.join(options)} belong{'s' * (len(options) == 1)} to {reason}"
            for reason, options in ignored.items()
        ]
        raise ValueError(f"{where}: {' '.join(sentences)}" if where else " ".join(sentences))


def _reasons(rule: Rule, values: Values) -> list[str]:
    """Return the settings whose values break a rule, without those that are None."""
    return [name for name in rule.depends if name not in rule.fields and values[name] is not None]


def _option(name: str, value: Any) -> str:
    """Return a setting and its value as they are typed.

    >>> _option("tau_lower", 0.05), _option("phi_gradient", False), _option("jitter", (0.4, 0.1))
    ('--tau-lower 0.05', '--no-phi-gradient', '--jitter 0.4 0.1')
    """
    words = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{words}" if value else f"--no-{words}"
    several = value if isinstance(value, tuple) else (value,)
    texts = [f"{each:g}" if isinstance(each, float) else str(each) or "''" for each in several]
    return " ".join([f"--{words}", *texts])
