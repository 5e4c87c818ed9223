"""The wheel and the source distribution, installed into empty environments."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from amcl.pretrained import names, pretrained_model
from amcl.pretrained.index import FOLDER

ROOT = Path(__file__).parents[2]
LOSS = """
import torch, amcl
heads = amcl.ProjectionHeads(16, 16, 8, num_heads=2)
criterion = amcl.AMCLLoss(num_heads=2, dim=8)
loss, stats = criterion(heads(torch.randn(4, 16)), heads(torch.randn(4, 16)), return_stats=True)
loss.backward()
assert all(p.grad is not None for p in criterion.parameters())
for name in amcl.__all__:
    if name != "load":
        getattr(amcl, name)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A source distribution, and the wheel that is made from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"TMPDIR": str(out)})
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@pytest.fixture
def environment(built, release, tmp_path):
    """A function that makes an environment of our wheel and the packages that it names."""

    def make(requirement):
        home = tmp_path / "environment"
        venv.create(home, with_pip=False, symlinks=True)
        python = home / "bin" / "python"
        site = next(home.glob("lib/python*/site-packages"))
        packages = release("dependencies").installed(requirement)
        packages.pop("amcl-torch", None)
        for package in packages.values():
            _link(package.distribution, site)
        with zipfile.ZipFile(built[1]) as wheel:
            wheel.extractall(site)
        return python

    return make


def _link(distribution, site):
    """Link the files of a distribution, which are large, into another environment."""
    root = Path(distribution.locate_file(""))
    for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        link = site / name
        if not link.is_symlink() and not link.exists():
            link.symlink_to(root / name)
        elif link.is_symlink() and (root / name).is_dir() and link.resolve() != root / name:
            raise RuntimeError(f"{name} is in two places")


def run(python, *words, cwd):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    return subprocess.run(
        [str(python), *words], capture_output=True, text=True, cwd=cwd, env=environment
    )


def test_the_core_needs_torch_alone(environment, tmp_path):
    python = environment("torch")
    assert run(python, "-c", "import numpy", cwd=tmp_path).returncode == 1
    done = run(python, "-W", "ignore", "-c", LOSS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in (["--help"], ["--version"], ["completion", "bash"]):
        assert run(python, "-m", "amcl", *words, cwd=tmp_path).returncode == 0
    done = run(python, "-m", "amcl", "models", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in names())
    assert "Loading a model needs timm, safetensors, which is not installed" in done.stdout
    done = run(python, "-m", "amcl", "pretrain", "--data", "builtin", cwd=tmp_path)
    assert done.returncode == 2
    assert "needs" in done.stderr
    assert "pip install '.[train]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = run(python, "-W", "ignore", "-c", "import amcl; amcl.load('run')", cwd=tmp_path)
    assert "ModuleNotFoundError: amcl.load needs" in done.stderr
    assert "[train]" in done.stderr


@pytest.mark.slow
def test_the_extra_train_is_all_that_commands_need(environment, tmp_path):
    python = environment("amcl-torch[train]")
    done = run(python, "-m", "amcl", "doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    train = "pretrain --data builtin --subset 200 --epochs 1 --batch-size 64 --out run"
    for words in (
        train,
        "evaluate run",
        "report run",
        "export run",
        "curate run --data builtin --out curation",
    ):
        done = run(python, "-m", "amcl", *words.split(), cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    for name in names():
        code = f"import amcl; print(amcl.load({name!r}).image_size)"
        done = run(python, "-c", code, cwd=tmp_path)
        assert done.stdout.strip() == str(pretrained_model(name).image_size), done.stderr
    done = run(python, "-m", "amcl", "export", "run", "--onnx", "--out", "other", cwd=tmp_path)
    assert "pip install '.[onnx]'" in done.stderr


def test_the_distributions_hold_what_they_should(built):
    source, wheel = built
    with tarfile.open(source) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "src/amcl/py.typed"} <= files
    models = {f"src/amcl/pretrained/{path.name}" for path in FOLDER.iterdir() if path.is_file()}
    assert any(name.endswith(".safetensors") for name in models)
    assert models <= files
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
    ours = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src/amcl").rglob("*") if p.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert ours <= files
    assert not [name for name in files - ours if not name.startswith("amcl_torch-")]
