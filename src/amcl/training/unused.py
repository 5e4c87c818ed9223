"""Which settings a run uses: a table of what each belongs to, so that none is ignored silently."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amcl.methods.heads import ADAPTIVE
from amcl.methods.masked import MaskedSettings
from amcl.training.config import Config

Values = Mapping[str, Any]

TOP_K = ("top_k", "top_k_softmax")
_SWITCH_ON = "(--temperature adaptive, with --heads 3)"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Fields that are used under a condition on other fields."""

    fields: tuple[str, ...]
    depends: tuple[str, ...]
    """The fields of the condition."""
    used: Callable[[Values], bool]
    """Whether a run with these values uses the fields. All of `depends` are among the values."""
    belongs: str
    """What the fields are part of, and how to switch it on."""


def _of_views(letter: str, name: str, *fields: str) -> Rule:
    return Rule(
        fields=fields,
        depends=("views",),
        used=lambda values: letter in values["views"],
        belongs=f"{name} (the letter {letter} in --views)",
    )


RULES = (
    Rule(
        fields=(
            "beta",
            "prior_tau",
            "phi_depth",
            "phi_input",
            "phi_output",
            "phi_scale",
            "phi_gradient",
            "omega_reduction",
            "omega_set",
            "omega_place",
            "similarity",
        ),
        depends=("temperature",),
        used=lambda values: values["temperature"] in ADAPTIVE,
        belongs=f"adaptive temperatures {_SWITCH_ON}",
    ),
    Rule(
        fields=("phi_scale",),
        depends=("phi_output",),
        used=lambda values: values["phi_output"] != "plain",
        belongs="a centered φ (--phi-output centered)",
    ),
    Rule(
        fields=("tau_lower", "tau_upper", "eta", "iota"),
        depends=("temperature",),
        used=lambda values: values["temperature"] in (*ADAPTIVE, "scheduled"),
        belongs=f"adaptive and scheduled temperatures {_SWITCH_ON}",
    ),
    Rule(
        fields=("tau_period",),
        depends=("temperature",),
        used=lambda values: values["temperature"] == "scheduled",
        belongs="scheduled temperatures (--temperature scheduled)",
    ),
    Rule(
        fields=("tau",),
        depends=("temperature",),
        used=lambda values: values["temperature"] != "scheduled",
        belongs="temperatures that are not scheduled (--temperature constant)",
    ),
    Rule(  # adaptive temperatures lie around τ₀, which is τ unless it is given
        fields=("tau",),
        depends=("temperature", "prior_tau"),
        used=lambda values: (
            values["temperature"] not in ("adaptive", "first-head") or values["prior_tau"] is None
        ),
        belongs="constant temperatures (--temperature constant; adaptive ones have --prior-tau)",
    ),
    Rule(
        fields=("top_k",),
        depends=("form",),
        used=lambda values: values["form"] in TOP_K,
        belongs="losses over the hardest negatives (--form top_k or top_k_softmax)",
    ),
    Rule(
        fields=("head_reduction", "shared_projector"),
        depends=("heads",),
        used=lambda values: values["heads"] > 1,
        belongs="several heads (--heads 3)",
    ),
    Rule(
        fields=(
            *(field.name for field in dataclasses.fields(MaskedSettings)),
            "mae_epochs",
            "mae_lr",
        ),
        depends=("init", "mae_epochs"),  # the latter is a field of LGP alone
        used=lambda values: values["init"] is None,
        belongs="LGP's first stage (leave out --init, which takes it from another run)",
    ),
    _of_views("a", "crops", "crop_scale", "crop_ratio"),
    _of_views("b", "blurs", "blur_p", "blur_sigma", "blur_kernel"),
    _of_views("c", "grayscale", "gray_p"),
    _of_views("d", "color jitter", "jitter", "jitter_p"),
    _of_views("e", "flips", "flip_p"),
    _of_views("s", "solarize", "solarize_p", "solarize_threshold"),
    Rule(
        fields=("sgd_momentum",),
        depends=("optimizer",),
        used=lambda values: values["optimizer"] in ("sgd", "lars"),
        belongs="SGD and LARS (--optimizer sgd)",
    ),
    Rule(
        fields=("adam_betas",),
        depends=("optimizer",),
        used=lambda values: values["optimizer"] == "adamw",
        belongs="AdamW (--optimizer adamw)",
    ),
    Rule(
        fields=("lars_trust",),
        depends=("optimizer",),
        used=lambda values: values["optimizer"] == "lars",
        belongs="LARS (--optimizer lars)",
    ),
    Rule(
        fields=("final_lr",),
        depends=("schedule",),
        used=lambda values: values["schedule"] == "cosine",
        belongs="the cosine schedule (--schedule cosine)",
    ),
)


def values_of(config: Config) -> dict[str, Any]:
    """All settings of a configuration by their names."""
    sections = (getattr(config, section.name) for section in dataclasses.fields(config))
    return {
        field.name: getattr(settings, field.name)
        for settings in sections
        for field in dataclasses.fields(settings)
    }


def broken_rule(values: Values, name: str, varied: Collection[str] = ()) -> Rule | None:
    """The rule by which a run with these values ignores the field, if there is one.

    What depends on a field that is `varied` may be used in some runs.

    >>> broken_rule(values_of(Config()), "beta").belongs
    'adaptive temperatures (--temperature adaptive, with --heads 3)'
    >>> broken_rule(values_of(Config()), "tau")
    """
    for rule in RULES:
        decided = all(other in values and other not in varied for other in rule.depends)
        if name in rule.fields and decided and not rule.used(values):
            return rule
    return None


def conditions(names: Collection[str]) -> set[str]:
    """The fields that decide whether some of these are used.

    >>> conditions(["top_k", "lr"])
    {'form'}
    """
    return {
        other
        for rule in RULES
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
    values, *others = map(values_of, configs)
    broken: dict[str, list[str]] = {}
    for name in given:
        rule = broken_rule(values, name, varied)
        if rule is None or any(broken_rule(other, name, varied) is None for other in others):
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
