"""Constant temperatures against adaptive ones, with one head and several."""

from collections.abc import Sequence

from amcl.experiments.analyses.registry import analysis
from amcl.experiments.cases import Metric, Part, along, dashed
from amcl.recipes import as_published, with_amcl
from amcl.sweep.fields import value_of, with_values
from amcl.training import Config


@analysis(
    "tau",
    "which constant temperature would match the adaptive ones?",
    values=("0.05", "0.1", "0.2", "0.3", "0.5"),
    few=("0.1", "0.5"),
)
def tau(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Return constant temperatures, beside adaptive ones."""
    several = with_amcl(base)
    count = value_of(several, "heads")
    adaptive = {
        "C = 1, adaptive": with_values(several, {"heads": 1}),
        f"C = {count}, adaptive": several,
    }
    constant = {
        "C = 1, constant": as_published(base),
        f"C = {count}, constant": with_values(several, {"temperature": "constant"}),
    }
    cases = dashed("τ", adaptive, metric)
    for name, config in constant.items():
        cases += along("τ", values, {name: config}, metric, "tau")
    return [
        Part(
            name="tau",
            title="Constant temperatures against adaptive ones",
            how_to_read="Each dot is a constant temperature that somebody would have to find; the "
            "dashed lines adapt.",
            cases=cases,
            x="τ",
        )
    ]
