"""Costs of training and inference: parameters, FLOPs, seconds a step, memory."""

from amcl.analysis.cost.comparison import Row, compare_cost, cost_table, rows
from amcl.analysis.cost.count import (
    Cost,
    backbone_flops,
    channels_of,
    cost_of,
    image_size_of,
)
from amcl.analysis.cost.estimate import Assumptions, Estimate, estimate_table, estimates, images_of
from amcl.analysis.cost.gpus import GPUS, Gpu, gpu_of
from amcl.analysis.cost.measure import STEPS, StepCost, measure_in_turns, measure_step

__all__ = [
    "GPUS",
    "STEPS",
    "Assumptions",
    "Cost",
    "Estimate",
    "Gpu",
    "Row",
    "StepCost",
    "backbone_flops",
    "channels_of",
    "compare_cost",
    "cost_of",
    "cost_table",
    "estimate_table",
    "estimates",
    "gpu_of",
    "image_size_of",
    "images_of",
    "measure_in_turns",
    "measure_step",
    "rows",
]
