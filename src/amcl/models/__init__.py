"""Models by what a user calls them, and files for other tools."""

from amcl.models.load import open_model
from amcl.models.method import load_method
from amcl.models.subject import Subject

__all__ = ["Subject", "load_method", "open_model"]
