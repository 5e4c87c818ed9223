"""Runs that several files look at."""

import pytest

from tiny_runs import picture_folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return picture_folder(tmp_path_factory.mktemp("pictures") / "set", count=16)
