"""Temperature schemes: one interface, so that any loss takes any of them."""

from amcl.temperature.adaptive import (
    AdaptiveTemperature,
    FirstHeadTemperature,
    prior_inside,
    range_around,
)
from amcl.temperature.base import Temperature
from amcl.temperature.constant import ConstantTemperature, LearnableTemperature
from amcl.temperature.schedule import ScheduledTemperature
from amcl.temperature.split import SplitTemperature
from amcl.temperature.uncertainty import UncertaintyTemperature

__all__ = [
    "AdaptiveTemperature",
    "ConstantTemperature",
    "FirstHeadTemperature",
    "LearnableTemperature",
    "ScheduledTemperature",
    "SplitTemperature",
    "Temperature",
    "UncertaintyTemperature",
    "prior_inside",
    "range_around",
]
