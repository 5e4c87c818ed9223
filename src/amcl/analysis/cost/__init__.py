"""Costs of training and inference: parameters, FLOPs, seconds a step, memory."""

from amcl.analysis.cost.comparison import Row, compare_cost, cost_table, rows
from amcl.analysis.cost.count import (
    Cost,
    backbone_flops,
    channels_of,
    cost_of,
    image_size_of,
)
from amcl.analysis.cost.measure import STEPS, StepCost, measure_in_turns, measure_step

__all__ = [
    "STEPS",
    "Cost",
    "Row",
    "StepCost",
    "backbone_flops",
    "channels_of",
    "compare_cost",
    "cost_of",
    "cost_table",
    "image_size_of",
    "measure_in_turns",
    "measure_step",
    "rows",
]
