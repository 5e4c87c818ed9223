"""Options that a dataclass declares, as tyro names them."""

import dataclasses
import functools
import math
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import docstring_parser
import tyro


@dataclass(frozen=True)
class Option:
    """An option, or a positional argument, of a command."""

    name: str
    """As it is typed, `--finetune.warmup-epochs`."""
    field: str
    owner: type
    """The dataclass that has the field."""
    hint: Any
    """The type that the field declares."""
    default: Any = dataclasses.MISSING
    """`MISSING` if the option is required."""
    section: str = ""
    """Name of the group of settings that the option belongs to; empty for the command's own."""
    about: str = ""
    """What the option does."""
    metavar: str | None = None
    """Words for the values in the help; none: those of the type."""
    negative: str | None = None
    """The option that turns a flag off, `--no-pretrained`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name, and that of its negative."""
        return (self.name,) if self.negative is None else (self.name, self.negative)

    @property
    def required(self) -> bool:
        """Whether the command does not run without it."""
        return self.default is dataclasses.MISSING


def options_of(kind: type, default: Any = None) -> Iterator[Option]:
    """Yield the options of a dataclass and of those within it.

    Args:
        kind: The dataclass.
        default: Values of options that are left out; None for those of the dataclass.
    """
    yield from _walk(kind, default, prefix="", section="", flat=False, positional=False)


def positionals_of(kind: type) -> Iterator[Option]:
    """Yield the positional arguments of a dataclass."""
    yield from _walk(kind, None, prefix="", section="", flat=False, positional=True)


def _walk(
    kind: type, default: Any, *, prefix: str, section: str, flat: bool, positional: bool
) -> Iterator[Option]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        marks: list[Any] = []
        if get_origin(hint) is typing.Annotated:
            hint, *marks = get_args(hint)
        value = _default_of(field, default)
        inner = type(value) if dataclasses.is_dataclass(value) else hint
        name = _given(marks, "name")
        name = field.name if name is None else name
        if dataclasses.is_dataclass(inner):
            below = flat or tyro.conf.OmitArgPrefixes in marks
            inside = prefix if below or not name else f"{prefix}{name}."
            yield from _walk(
                inner if isinstance(inner, type) else type(inner),
                value,
                prefix=inside.replace("_", "-"),
                section=section if name in ("", "settings") else name,
                flat=below,
                positional=positional,
            )
            continue
        if (tyro.conf.Positional in marks) != positional or tyro.conf.Fixed in marks:
            continue
        if "choices" in field.metadata:
            hint = Literal[field.metadata["choices"]()]
        words = f"{prefix}{name}".replace("_", "-")
        *outer, last = words.split(".")
        paired = hint is bool and tyro.conf.FlagCreatePairsOff not in marks
        yield Option(
            name=field.name if positional else f"--{words}",
            field=field.name,
            owner=kind,
            hint=hint,
            default=value,
            section=section,
            about=_given(marks, "help") or _about(kind, field.name),
            metavar=_given(marks, "metavar"),
            negative="--" + ".".join([*outer, f"no-{last}"]) if paired else None,
        )


def _default_of(field: dataclasses.Field[Any], default: Any) -> Any:
    """Return the value of a field that is left out; `MISSING` if it has to be given."""
    value = getattr(default, field.name, dataclasses.MISSING)
    if value is dataclasses.MISSING:
        value = field.default
    if value is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    return dataclasses.MISSING if value is tyro.MISSING else value


def _given(marks: Sequence[Any], attribute: str) -> str | None:
    """Return what `tyro.conf.arg` sets of an option, if it does."""
    return next((v for m in marks if (v := getattr(m, attribute, None)) is not None), None)


def _about(kind: type, field: str) -> str:
    """Return the docstring of a field, which the dataclass or one that it inherits from has."""
    return next((docs[field] for base in kind.__mro__ if field in (docs := _field_docs(base))), "")


@functools.cache
def _field_docs(kind: type) -> dict[str, str]:
    if not dataclasses.is_dataclass(kind):
        return {}
    parsed = docstring_parser.parse_from_object(kind)
    return {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}


def most_values(hint: Any) -> float:
    """Return the number of words that an option of a type takes; infinity for any number.

    >>> most_values(bool), most_values(int | None), most_values(tuple[float, float])
    (0, 1, 2)
    >>> most_values(tuple[str, ...])
    inf
    """
    if hint is bool:
        return 0
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        return math.inf if kinds[-1] is Ellipsis else len(kinds)
    return max(
        (
            most_values(kind)
            for kind in get_args(hint)
            if isinstance(kind, type) or get_origin(kind) is tuple
        ),
        default=1,
    )
