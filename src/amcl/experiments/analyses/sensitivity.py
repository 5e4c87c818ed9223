"""η, ι and β, one at a time."""

from collections.abc import Sequence

from amcl.config import Config
from amcl.config.fields import value_of, with_values
from amcl.experiments.analyses.registry import analysis
from amcl.experiments.specs import CellSpec, Metric, TableSpec, positive
from amcl.recipes import with_amcl


@analysis(
    "sensitivity",
    "how much depends on η, ι and β?",
    values=("0.2", "0.5", "1", "2", "5"),
    few=("0.5", "2"),
)
def sensitivity(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
    """Return AMCL with η, ι or β multiplied by each of the values."""
    amcl = with_amcl(base)
    cells = []
    for field, symbol in (("eta", "η"), ("iota", "ι"), ("beta", "β")):
        for factor in values:
            # Rounded: products of decimals are none.
            value = float(f"{positive('factor', factor) * value_of(amcl, field):.6g}")
            cells.append(
                CellSpec(
                    labels={"setting": symbol, "value": f"{value:.3g}"},
                    config=with_values(amcl, {field: value}),
                    metric=metric,
                )
            )
    return [
        TableSpec(
            name="sensitivity",
            title="Sensitivity to η, ι and β",
            how_to_read="One setting changes, the others stay: η is the least temperature, ι the "
            "width of its range, β the weight of Ω. `amcl search` looks at all together.",
            cells=tuple(cells),
            columns="",
            x="value",
            panels="setting",
        )
    ]
