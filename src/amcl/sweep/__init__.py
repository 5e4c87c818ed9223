"""Sweeps: many runs over a grid of settings and seeds, each once, whatever interrupts them."""

from amcl.sweep.folder import SweepFolder
from amcl.sweep.grid import Point, axes_of, grid
from amcl.sweep.runs import sweep

__all__ = ["Point", "SweepFolder", "axes_of", "grid", "sweep"]
