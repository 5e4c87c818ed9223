"""Analyses: the effect of one setting, as a table with a picture. One file is one analysis."""

import importlib
import pkgutil

from amcl.experiments.analyses.registry import ANALYSES, Analysis, analysis

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["ANALYSES", "Analysis", "analysis"]
