"""Set-up for all tests."""

import functools
import os
import sys

# oneDNN may pick AMX instructions for bfloat16 that a virtual CPU announces but cannot run. The
# cap is read when torch is loaded, so it must be set first.
assert "torch" not in sys.modules, "torch was imported before tests/conftest.py"
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Tests run side by side: threads of torch, NumPy or scikit-learn would only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

from amcl.data import builtin  # noqa: E402
from factories import few_builtin_images  # noqa: E402

# It changes the process that imports it, as pytest would to look for examples in docstrings.
collect_ignore = ["windows_like.py"]

hypothesis.settings.register_profile("amcl", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("amcl")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def _images_drawn_once():
    """The built-in set takes most of a second to draw, and hundreds of tests use it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtin, "_draw", functools.cache(builtin._draw))
        yield


@pytest.fixture(scope="module")
def few_images():
    """For the tests of a file, the built-in set has 160 images, and 40 to probe with."""
    with few_builtin_images():
        yield
