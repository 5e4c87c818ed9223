"""Temperature schemes: one interface, so that any loss takes any of them.

A scheme is one file of this package, or of another one that registers it with
`register_temperature`.
"""

from amcl.temperature.adaptive import AdaptiveTemperature
from amcl.temperature.adaptive_settings import AdaptiveSettings
from amcl.temperature.alignment import (
    AlignmentSettings,
    AlignmentTemperature,
    PositiveScaleSettings,
    PositiveScaleTemperature,
)
from amcl.temperature.base import Temperature
from amcl.temperature.constant import (
    ConstantSettings,
    ConstantTemperature,
    LearnableSettings,
    LearnableTemperature,
)
from amcl.temperature.first_head import FirstHeadSettings, FirstHeadTemperature
from amcl.temperature.individual import IndividualSettings, IndividualTemperature
from amcl.temperature.one_sided import OneSidedSettings, OneSidedTemperature
from amcl.temperature.ranges import prior_inside, range_around
from amcl.temperature.schedule import ScheduledSettings, ScheduledTemperature
from amcl.temperature.settings import TEMPERATURES, TemperatureSettings, register_temperature
from amcl.temperature.similarity import (
    ArtanhSettings,
    ArtanhTemperature,
    SimilaritySettings,
    SimilarityTemperature,
)
from amcl.temperature.split import SplitTemperature
from amcl.temperature.uncertainty import UncertaintySettings, UncertaintyTemperature

__all__ = [
    "TEMPERATURES",
    "AdaptiveSettings",
    "AdaptiveTemperature",
    "AlignmentSettings",
    "AlignmentTemperature",
    "ArtanhSettings",
    "ArtanhTemperature",
    "ConstantSettings",
    "ConstantTemperature",
    "FirstHeadSettings",
    "FirstHeadTemperature",
    "IndividualSettings",
    "IndividualTemperature",
    "LearnableSettings",
    "LearnableTemperature",
    "OneSidedSettings",
    "OneSidedTemperature",
    "PositiveScaleSettings",
    "PositiveScaleTemperature",
    "ScheduledSettings",
    "ScheduledTemperature",
    "SimilaritySettings",
    "SimilarityTemperature",
    "SplitTemperature",
    "Temperature",
    "TemperatureSettings",
    "UncertaintySettings",
    "UncertaintyTemperature",
    "prior_inside",
    "range_around",
    "register_temperature",
]
