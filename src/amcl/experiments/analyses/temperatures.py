"""Temperature schemes, all with several heads."""

from collections.abc import Sequence
from typing import Any

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.experiments.analyses.registry import analysis
from amcl.experiments.specs import BASELINE, CellSpec, Metric, TableSpec, with_field
from amcl.recipes import as_published, with_amcl
from amcl.temperature import TEMPERATURES


@analysis(
    "temperatures",
    "which pairs should have a temperature of their own, and from where?",
    values=(
        *("constant", "adaptive-positive", "adaptive-negative", "first-head"),
        *("uncertainty", "scheduled", "adaptive"),
    ),
    few=("constant", "uncertainty", "scheduled", "adaptive"),
)
def temperatures(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
    """Return the schemes with several heads, beside the method as published."""
    method: Any = base.method
    refused = {name: method.refusal(TEMPERATURES[name]) for name in values}
    notes = tuple(f"{name} is left out: it {reason}." for name, reason in refused.items() if reason)
    values = [name for name in values if not refused[name]]
    configs = {BASELINE: as_published(base)} | {v: with_scheme(base, v) for v in values}
    return [
        TableSpec(
            name="temperatures",
            title="Temperature schemes",
            how_to_read="The baseline has one head and a constant temperature, all others several "
            "heads. adaptive-positive: only pairs of one picture adapt; first-head: all heads take "
            "the temperature of the first; uncertainty is TaU, scheduled is TS.",
            cells=tuple(
                CellSpec(labels={"temperature": name}, config=config, metric=metric)
                for name, config in configs.items()
            ),
            columns="",
            x="temperature",
            ordered=False,
            compared="temperature",
            notes=notes,
        )
    ]


def with_scheme(base: Config, scheme: str) -> Config:
    """Return the configuration with several heads and a temperature scheme, as published."""
    config = with_field(with_amcl(base), "temperature", scheme)
    if scheme == "uncertainty":
        return with_values(config, {"tau": 0.1})  # as TaU has it
    if scheme == "scheduled":  # as TS has it; short runs see two periods, as its long ones do
        period = min(400.0, max(base.run.epochs / 2, 1.0))
        return with_values(config, {"tau_lower": 0.1, "tau_upper": 1.0, "tau_period": period})
    return config
