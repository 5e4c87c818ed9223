"""What temperatures do."""

from collections.abc import Sequence

from amcl.experiments.analyses.pieces import dashed, number, with_field
from amcl.experiments.cases import BASELINE, SIDE, Case, Metric, Part
from amcl.methods import SimSiamSettings
from amcl.recipes import as_published, with_amcl
from amcl.sweep.fields import value_of, with_values
from amcl.training import Config


def temperatures(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Ways for a pair to get its temperature, all with several heads."""
    amcl = with_amcl(base)
    cases = [Case(labels={"temperature": BASELINE}, config=as_published(base), metric=metric)]
    notes: tuple[str, ...] = ()
    if isinstance(base.method, SimSiamSettings):
        left_out = ("adaptive-negative", "uncertainty")
        values = [v for v in values if v not in left_out]
        notes = (f"SimSiam has no negatives and no extra output: no {' and no '.join(left_out)}.",)
    for scheme in values:
        config = with_field(amcl, "temperature", scheme)
        if scheme == "uncertainty":
            config = with_values(config, {"tau": 0.1})  # as TaU has it
        if scheme == "scheduled":  # as TS has it; short runs see two periods, as its long ones do
            period = min(400.0, max(base.run.epochs / 2, 1.0))
            ts = {"tau_lower": 0.1, "tau_upper": 1.0, "tau_period": period}
            config = with_values(config, ts)
        cases.append(Case(labels={"temperature": scheme}, config=config, metric=metric))
    return [
        Part(
            name="temperatures",
            title="Ways for a pair to get its temperature",
            told="The baseline has one head and a constant temperature, all others several heads. "
            "adaptive-positive: only pairs of one picture adapt; first-head: all heads take the "
            "temperature of the first; uncertainty is TaU, scheduled is TS.",
            cases=tuple(cases),
            columns="",
            x="temperature",
            ordered=False,
            compared="temperature",
            notes=notes,
        )
    ]


def tau(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Constant temperatures, one for all, against adaptive ones; one head and several."""
    one, several = as_published(base), with_amcl(base)
    number = value_of(several, "heads")
    constant = with_values(several, {"temperature": "constant"})
    cases = [
        dashed("τ", "C = 1, adaptive", with_values(several, {"heads": 1}), metric),
        dashed("τ", f"C = {number}, adaptive", several, metric),
    ]
    cases += [
        Case(labels={"τ": v, SIDE: name}, config=with_field(config, "tau", v), metric=metric)
        for name, config in (("C = 1, constant", one), (f"C = {number}, constant", constant))
        for v in values
    ]
    return [
        Part(
            name="tau",
            title="Constant temperatures against adaptive ones",
            told="Each dot is a constant temperature that somebody would have to find; the dashed "
            "lines adapt.",
            cases=tuple(cases),
            columns="τ",
            x="τ",
            series=SIDE,
        )
    ]


def sensitivity(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """η, ι and β, one at a time, at so many times their value."""
    amcl = with_amcl(base)
    cases = []
    for field, symbol in (("eta", "η"), ("iota", "ι"), ("beta", "β")):
        for v in values:
            # Rounded: products of decimals are none.
            value = float(f"{number('factor', v) * value_of(amcl, field):.6g}")
            cases.append(
                Case(
                    labels={"setting": symbol, "value": f"{value:.3g}"},
                    config=with_values(amcl, {field: value}),
                    metric=metric,
                )
            )
    return [
        Part(
            name="sensitivity",
            title="Sensitivity to η, ι and β",
            told="One setting changes, the others stay: η is the least temperature, ι the width of "
            "its range, β the weight of Ω. `amcl search` looks at all together.",
            cases=tuple(cases),
            columns="",
            x="value",
            panels="setting",
        )
    ]
