"""The cost of AMCL beside the paper's figures (Table 8), and its three designs (Fig. 2)."""

from amcl.analysis.cost import Row, compare_cost, cost_of, cost_table, rows
from amcl.config.fields import with_values
from amcl.drawing import PALETTE, bare, figure_of, legend_below
from amcl.experiments.page import Topic
from amcl.experiments.paper.numbers import TABLE_8
from amcl.methods import METHODS
from amcl.recipes import recipe, with_amcl
from amcl.report import Chart
from amcl.results import Cell, Table

_ROWS = {
    "parameters": (0, 1),
    "step_flops": None,
    "forward_flops": (2, 3),
    "inference_flops": None,
}


def cost_topic(data: str = "imagenet") -> tuple[Topic, Table]:
    """Return the cost of four methods with and without AMCL, by their recipes for a data set."""
    body: list[list[str | Cell]] = []
    lines = []
    gains = {}
    for name, published in TABLE_8.items():
        config = recipe(f"{data}-{name}")
        method = METHODS[config.method.name].settings_class.title
        for row in rows(compare_cost(config, with_amcl(config))):
            lines.append([method, row.label, *map(str, row.values), str(row.ratio or "")])
            if row.name in _ROWS:
                body.append([method, *_cells(row, published)])
            if row.name == "step_flops":
                gains[method] = 100 * ((row.ratio or 1.0) - 1)
    figure = figure_of(5.2, 3.0)
    ax = figure.subplots()
    ax.bar(list(gains), list(gains.values()), color=PALETTE[0], width=0.5)
    ax.set_ylabel("more FLOPs of a step (%)")
    bare(ax)
    alt = "More FLOPs of a training step: " + ", ".join(f"{m} {g:.1f}%" for m, g in gains.items())
    small = () if data == "imagenet" else (f"These are the small networks for {data}.",)
    topic = Topic(
        name="cost",
        title="Parameters and FLOPs, with and without AMCL",
        how_to_read="Counted by torch's own counter at two FLOPs for a multiplication with its "
        "addition, attention included; FLOPs of an image in training are those of all its views. "
        "At inference the heads are gone, and nothing is added.",
        blocks=(Chart(figure, alt),),
        table=Table(("method", "", "baseline", "+ AMCL", "ratio"), body, left=2),
        notes=(
            *small,
            "The paper says about +5%; its own table says 6 to 10%, and does not say what was "
            "counted. Its 25.6 M are a ResNet-50 with the layer of 1,000 classes and without a "
            "projector; two more heads of the same form add 8.9 M, not 1.1 M. Its GFLOPs are "
            "near multiply-adds of one view for MoCo (4.1), near FLOPs of two whole views for CAN.",
        ),
        pictures={"cost": figure},
    )
    return topic, Table(["method", "figure", "baseline", "amcl", "ratio"], lines)


def design_topic() -> tuple[Topic, Table]:
    """Return the cost of one head, of an adaptive temperature, and of several heads."""
    base = recipe("cifar10-simclr")
    designs = {
        "(a) one head, constant τ": base,
        "(b) one head, adaptive τ": with_values(base, {"temperature": "adaptive"}),
        "(c) three heads, adaptive τ": with_amcl(base),
    }
    costs = [cost_of(config) for config in designs.values()]
    figure = figure_of(6.4, 3.0)
    ax = figure.subplots()
    offsets = [0.0] * len(designs)
    names = [name.replace(", ", ",\n") for name in designs]
    for part, color in zip(("backbone", "heads", "temperature"), PALETTE, strict=False):
        widths = [cost.parameters.get(part, 0) / 1e6 for cost in costs]
        ax.barh(names, widths, left=offsets, color=color, height=0.5, label=part)
        offsets = [a + b for a, b in zip(offsets, widths, strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("parameters in training (millions)")
    bare(ax)
    legend_below(figure)
    totals = [
        f"{n} {c.training_parameters / 1e6:.2f} M" for n, c in zip(designs, costs, strict=True)
    ]
    topic = Topic(
        name="designs",
        title="The three designs",
        how_to_read="SimCLR on CIFAR with ResNet-18. In (b) a layer φ reads a temperature off each "
        "pair of projections; in (c) the projection head comes three times, and φ serves them all.",
        blocks=(Chart(figure, f"Parameters of the three designs: {', '.join(totals)}"),),
        table=cost_table(list(designs), costs),
        pictures={"designs": figure},
    )
    numbers = [[row.label, *map(str, row.values)] for row in rows(costs)]
    return topic, Table(["figure", *designs], numbers)


def _cells(row: Row, published: tuple[float, float, float, float]) -> list[str | Cell]:
    base, amcl = row.values
    columns = _ROWS[row.name]
    paper = ["", ""]
    if columns is not None:
        paper = [f"paper {published[columns[0]]:g}", f"paper +{published[columns[1]]:g}"]
    return [
        row.label,
        Cell(f"{base:.4g}", paper[0]),
        Cell(f"{amcl:.4g}", paper[1]),
        "" if row.ratio is None else f"{row.ratio:.3f}",
    ]
