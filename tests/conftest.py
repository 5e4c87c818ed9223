"""Set-up for all tests."""

import os
import sys

# oneDNN may pick AMX instructions for bfloat16 that a virtual CPU announces but cannot run. The
# cap is read when torch is loaded, so it must be set first.
assert "torch" not in sys.modules, "torch was imported before tests/conftest.py"
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)  # tests run side by side; tensors here are small

hypothesis.settings.register_profile("amcl", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("amcl")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
