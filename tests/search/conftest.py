"""Studies whose runs take no time."""

import functools

import pytest

import amcl.sweep.single_run
from amcl.search import study
from amcl.training.pretrain import load_data
from search.studies import Runs, base


@functools.cache
def images():
    return load_data(base())


@pytest.fixture
def drawn(monkeypatch):
    """Runs that take no time."""
    made = Runs()
    monkeypatch.setattr(amcl.sweep.single_run, "pretrain", made)
    monkeypatch.setattr(study, "load_data", lambda config: images())
    return made


@pytest.fixture
def runs(drawn, monkeypatch):
    """The same without pictures."""
    monkeypatch.setattr(study, "save_plots", lambda *args: ([], {}))
    return drawn
