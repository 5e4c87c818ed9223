"""Constant temperatures against adaptive ones, with one head and several."""

from amcl.config import Config
from amcl.config.fields import value_of, with_values
from amcl.experiments.analyses.registry import axis_analysis
from amcl.recipes import as_published, with_amcl


def _constant(base: Config) -> dict[str, Config]:
    several = with_values(with_amcl(base), {"temperature": "constant"})
    heads = value_of(several, "heads")
    return {"C = 1, constant": as_published(base), f"C = {heads}, constant": several}


def _adaptive(base: Config) -> dict[str, Config]:
    several = with_amcl(base)
    one = with_values(several, {"heads": 1})
    return {"C = 1, adaptive": one, f"C = {value_of(several, 'heads')}, adaptive": several}


axis_analysis(
    "tau",
    "which constant temperature would match the adaptive ones?",
    values=("0.05", "0.1", "0.2", "0.3", "0.5"),
    few=("0.1", "0.5"),
    label="τ",
    change="tau",
    configs=_constant,
    references=_adaptive,
    title="Constant temperatures against adaptive ones",
    how_to_read="Each dot is a constant temperature that somebody would have to find; the "
    "dashed lines adapt.",
)
