"""Which settings a run uses: a table of what each belongs to, so that none is ignored silently."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from amcl.config import Config
from amcl.settings import Rule, Values


def rules_of(config: Config) -> tuple[Rule, ...]:
    """Return the rules that the settings of a configuration declare."""
    found = dict[int, Rule]()
    for section in dataclasses.fields(config):
        for cls in type(getattr(config, section.name)).__mro__:
            for rule in vars(cls).get("rules", ()):
                found[id(rule)] = rule
    return tuple(found.values())


def values_of(config: Config) -> dict[str, Any]:
    """All settings of a configuration by their names."""
    sections = (getattr(config, section.name) for section in dataclasses.fields(config))
    return {
        field.name: getattr(settings, field.name)
        for settings in sections
        for field in dataclasses.fields(settings)
    }


def broken_rule(
    rules: Sequence[Rule], values: Values, name: str, varied: Collection[str] = ()
) -> Rule | None:
    """The rule by which a run with these values ignores the field, if there is one.

    What depends on a field that is `varied` may be used in some runs.

    >>> config = Config()
    >>> broken_rule(rules_of(config), values_of(config), "beta").belongs
    'adaptive temperatures (--temperature adaptive, with --heads 3)'
    >>> broken_rule(rules_of(config), values_of(config), "tau")
    """
    for rule in rules:
        decided = all(other in values and other not in varied for other in rule.depends)
        if name in rule.fields and decided and not rule.used(values):
            return rule
    return None


def conditions(config: Config, names: Collection[str]) -> set[str]:
    """The fields that decide whether some of these are used.

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
    values = values_of(configs[0])
    broken: dict[str, list[str]] = {}
    for name in given:
        broken_by = [
            broken_rule(rules_of(config), values_of(config), name, varied) for config in configs
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
