"""Settings of temperature schemes, and their registry."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeVar

from amcl.registry import Registry
from amcl.settings import Rule, positive_number
from amcl.temperature.base import Temperature

S = TypeVar("S", bound="type[TemperatureSettings]")

TEMPERATURES = Registry["type[TemperatureSettings]"](
    "temperature", "amcl.temperature", "amcl.temperatures"
)
"""Settings of all temperature schemes, with those of installed packages."""


@dataclass(frozen=True, kw_only=True)
class TemperatureSettings:
    """Settings of a temperature scheme, and the traits by which methods and losses treat it.

    A scheme is a file with a module (`Temperature`) and a dataclass of this kind, registered with
    `register_temperature`. Its fields become options of `amcl pretrain --temperature NAME` and
    entries of ``[method.temperature]`` in TOML files.

    Example:
        >>> settings = TEMPERATURES["constant"](tau=0.2)
        >>> settings.adapts, settings.typical(dim=128), settings.summary(dim=128)
        (False, 0.2, 'constant, 0.2')
    """

    name: ClassVar[str]
    """Name on the command line and in files."""
    adapts: ClassVar[bool] = False
    """True if pairs have temperatures of their own, which are learned and have a regularizer Ω."""
    needs_negatives: ClassVar[bool] = False
    """True if the scheme is about negative pairs, and so of no use to methods without them."""
    needs_images: ClassVar[bool] = False
    """True if images have temperatures, and pairs of channels (Barlow Twins) cannot have them."""
    needs_logits: ClassVar[bool] = False
    """True if s/τ has a meaning as a whole, and τ alone has none."""
    has_score: ClassVar[bool] = False
    """True if each projection head has a further output that the temperature depends on."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """Conditions under which settings have an effect."""

    def build(self, dim: int) -> Temperature:
        """Make the module of the scheme.

        Args:
            dim: D, the width of the projections.
        """
        raise NotImplementedError

    def typical(self, dim: int) -> float:
        """Return a temperature that pairs have on average, by which losses may be scaled.

        Args:
            dim: D, the width of the projections.
        """
        raise NotImplementedError

    def summary(self, dim: int) -> str:
        """Return the scheme in a few words, for tables such as model cards.

        Args:
            dim: D, the width of the projections.
        """
        return f"{self.name}, {self.typical(dim):g}"

    def tau_range(self, dim: int) -> tuple[float, float] | None:
        """Return the least and the greatest τ where the scheme has a range, else None.

        Args:
            dim: D, the width of the projections.
        """
        return None

    def omega(self, dim: int) -> tuple[float, float | Literal["literal"] | tuple[float, ...]]:
        """Return β, the weight of the regularizer Ω, and τ₀, the temperature of its minimum.

        Heads with temperatures of their own have a tuple of τ₀.

        Args:
            dim: D, the width of the projections.
        """
        return 0.0, self.typical(dim)


@dataclass(frozen=True, kw_only=True)
class SingleTauSettings(TemperatureSettings):
    """Settings of schemes that have one temperature, or a scale of it, for all pairs."""

    tau: float = 0.1
    """The temperature: constant, where a learnable one starts, the scale of uncertainty (TaU)."""

    def __post_init__(self) -> None:
        positive_number("tau", self.tau, "usual values are 0.05 to 1")

    def typical(self, dim: int) -> float:
        return self.tau


def register_temperature(settings: S) -> S:
    """Register a temperature scheme under the name that its settings declare.

    The scheme is then available to every method with heads: in `amcl pretrain --temperature NAME`,
    in TOML files, sweeps, searches and reports.

    Args:
        settings: The dataclass of the scheme's settings, a `TemperatureSettings`.

    Returns:
        The same class, so that this function is a decorator.

    Example:
        >>> from amcl.temperature import ConstantTemperature
        >>> @register_temperature
        ... @dataclass(frozen=True, kw_only=True)
        ... class HalfSettings(TemperatureSettings):
        ...     name: ClassVar[str] = "half"
        ...
        ...     def build(self, dim):
        ...         return ConstantTemperature(0.5)
        >>> "half" in TEMPERATURES
        True
        >>> TEMPERATURES.unregister("half")
    """
    TEMPERATURES.register(settings.name, settings)
    return settings


def schemes_with(field: str) -> tuple[str, ...]:
    """Return the names of the schemes that have a setting.

    Args:
        field: Name of the setting.

    Example:
        >>> schemes_with("tau_period")
        ('scheduled',)
    """
    return tuple(name for name in TEMPERATURES if field in field_names(name))


def field_names(name: str) -> tuple[str, ...]:
    """Return the names of a scheme's settings.

    Args:
        name: Name of a registered scheme.

    Example:
        >>> field_names("constant")
        ('tau',)
    """
    return tuple(field.name for field in fields(TEMPERATURES[name]))


def switch(
    current: TemperatureSettings, name: str, defaults: Mapping[str, Any]
) -> TemperatureSettings:
    """Return the settings of another scheme, which keep what the current ones set.

    Args:
        current: Settings of a scheme.
        name: Name of the other scheme.
        defaults: Values that a method prefers to the defaults of a scheme, by the name of the
            setting; those that the scheme does not have are ignored.

    Returns:
        Settings of the other scheme. Settings that both schemes have keep their values.

    Example:
        >>> from amcl.temperature import ConstantSettings
        >>> switch(ConstantSettings(tau=0.2), "adaptive", {"beta": 3.0}).tau
        0.2
    """
    if name == current.name:
        return current
    values = {**defaults, **{field: getattr(current, field) for field in field_names(current.name)}}
    scheme = TEMPERATURES[name]
    return scheme(**{field: values[field] for field in field_names(name) if field in values})
