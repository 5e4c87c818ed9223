"""The first weights of a run: from a seed or from another run."""

import shutil
from dataclasses import replace

import pytest
import torch

from amcl.backbones import BackboneSettings
from amcl.checkpoints import RunFolder, read_metrics
from amcl.config import Config
from amcl.errors import RunError
from amcl.training import pretrain
from amcl.training.start import first_weights, fresh_method, init_from
from stages import assert_anchored, assert_equal, stopped, weights
from tiny_runs import assert_same_run, tiny_vit


@pytest.fixture(scope="module")
def mae(pictures):
    """A finished run of MAE. Do not write into it."""
    path = pictures.parent / "runs/mae"
    pretrain(tiny_vit("mae", pictures), path)
    return path


def still(config: Config) -> Config:
    """One epoch at a rate that moves no weight: what a run ends with is what it began with."""
    return replace(
        config,
        optimizer=replace(config.optimizer, lr=1e-30, weight_decay=0.0),
        run=replace(config.run, epochs=1),
    )


# -- the backbone of another run


@pytest.mark.parametrize(
    ("method", "source"),
    [
        ("simclr", ""),
        ("can", "backbone.safetensors"),
        ("lgp", ""),
        ("simclr", "checkpoints/last.pt"),
    ],
)
def test_a_run_begins_with_the_weights_of_another(mae, pictures, tmp_path, method, source):
    config = still(tiny_vit(method, pictures, init=str(mae / source)))
    pretrain(config, tmp_path / "run")
    assert not (tmp_path / "run/mae").exists()
    for name, value in weights(tmp_path / "run").items():
        torch.testing.assert_close(value, weights(mae)[name], rtol=0, atol=1e-20)
    random = fresh_method(config, 16).backbone.network.blocks[0].attn.qkv.weight
    assert not torch.allclose(random, weights(mae)["blocks.0.attn.qkv.weight"], atol=1e-3)


def test_both_encoders_and_the_anchor_take_them_and_heads_are_fresh(mae, pictures):
    config = tiny_vit("lgp", pictures, init=str(mae))
    fresh, begun = (fresh_method(config, 16) for _ in range(2))
    init_from(begun, first_weights(config, RunFolder(mae.parent / "none"), 16))
    given = weights(mae)
    assert_equal(begun.backbone.network.state_dict(), given)
    assert_equal(begun.keys.module[0].network.state_dict(), given)
    assert_equal(begun.heads.state_dict(), fresh.heads.state_dict())
    assert_equal(begun.keys.module[1].state_dict(), fresh.heads.state_dict())
    assert_equal(begun.predictors.state_dict(), fresh.predictors.state_dict())
    views = torch.randn(2, 4, 3, 16, 16)
    begun(list(views), watch=True)
    assert begun.terms["distance"] == 0
    with torch.no_grad():
        begun.backbone.network.blocks[0].attn.qkv.bias += 0.5
    begun(list(views), watch=True)
    assert begun.terms["distance"] == pytest.approx(0.5 * 3 * 64, rel=1e-4)


def test_the_first_weights_follow_from_the_seed(pictures):
    config = tiny_vit("lgp", pictures)
    torch.manual_seed(5)
    first = fresh_method(config, 16).state_dict()
    torch.manual_seed(6)
    assert_equal(first, fresh_method(config, 16).state_dict())
    other = replace(config, run=replace(config.run, seed=1))
    place = "backbone.network.blocks.0.attn.qkv.weight"
    assert not torch.equal(first[place], fresh_method(other, 16).state_dict()[place])


@pytest.mark.parametrize(
    ("changed", "trained"),
    [
        (
            {"backbone": BackboneSettings(name="resnet10t", width=0.25)},
            "resnet10t ×0.25 for 16",
        ),
        ({"backbone": BackboneSettings(name="test_vit", width=0.5)}, "test_vit ×0.5 for 16"),
    ],
    ids=["network", "width"],
)
def test_another_network_is_refused_with_both_named(mae, pictures, tmp_path, changed, trained):
    config = tiny_vit("simclr", pictures, init=str(mae))
    with pytest.raises(RunError) as told:
        pretrain(replace(config, **changed), tmp_path / "run")
    own = f"{mae} holds test_vit ×1 for 16 pixels in patches of 2"
    assert f"{own}, and this run trains {trained}" in str(told.value)
    assert "--backbone" in str(told.value)
    assert not (tmp_path / "run").exists()


def test_weights_that_are_not_there(mae, pictures, tmp_path):
    config = tiny_vit("lgp", pictures, init=str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"/nowhere'"):
        pretrain(config, tmp_path / "run")
    shutil.copytree(mae, tmp_path / "nowhere")
    (tmp_path / "nowhere/backbone.safetensors").unlink()
    with pytest.raises(RunError, match=r"has not ended.*last\.pt.*--resume .*nowhere"):
        pretrain(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_without_the_one_it_began_with(mae, pictures, tmp_path, monkeypatch):
    """Its checkpoint has all of it, the weights that LGP is pulled to as well."""
    shutil.copytree(mae, tmp_path / "start")
    config = tiny_vit("lgp", pictures, init=str(tmp_path / "start"))
    pretrain(config, tmp_path / "straight")
    stopped(monkeypatch, config, tmp_path / "run", 3, "after step 3 of 4")
    shutil.rmtree(tmp_path / "start")
    pretrain(config, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "straight", tmp_path / "run")
    distances = [r["term/distance"] for r in read_metrics(tmp_path / "run") if "term/distance" in r]
    assert len(distances) == 2
    assert distances[0] > 0
    assert_anchored(tmp_path / "run", mae)


def test_a_run_that_saved_nothing_needs_the_one_it_begins_with(pictures, tmp_path):
    config = tiny_vit("lgp", pictures, init=str(tmp_path / "gone"))
    RunFolder(tmp_path / "run").create(config)
    with pytest.raises(FileNotFoundError, match="gone"):
        pretrain(config, tmp_path / "run", resume=True)
