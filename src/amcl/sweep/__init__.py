"""Sweeps: many runs over a grid of settings and seeds, each once, whatever interrupts them."""

from amcl.sweep.folder import Finding, SweepFolder
from amcl.sweep.grid import Point, axes_of, grid
from amcl.sweep.runs import sweep

__all__ = ["Finding", "Point", "SweepFolder", "axes_of", "grid", "sweep"]
