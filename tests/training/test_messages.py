"""What is said during a run: collapse, divergence, progress."""

import io
import re
import sys
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from amcl.backbones import Backbone, BackboneSettings
from amcl.data.builtin import builtin
from amcl.data.shards.pack import pack
from amcl.errors import NonFiniteError, RunError
from amcl.losses import LossStats, PairStats
from amcl.methods import MAESettings, Method, make_method
from amcl.training import pretrain
from amcl.training import watch as watching
from amcl.training.display import Display
from amcl.training.messages import data_hint
from amcl.training.pretrain import load_data
from amcl.training.watch import Watch
from factories import small_run
from tiny_runs import picture_folder, tiny_vit

pytestmark = pytest.mark.usefixtures("few_images")
loop = sys.modules["amcl.training.pretrain"]


def test_collapse_is_told_with_its_remedy(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("amcl.training.watch.spread", lambda features: 0.01)
    with caplog.at_level("WARNING", logger="amcl"):
        pretrain(small_run(epochs=1), tmp_path / "run")
    assert "collapsed" in caplog.text
    assert "--tau-lower" in caplog.text


def test_collapse_without_temperatures_speaks_of_none(monkeypatch):
    backbone = Backbone(BackboneSettings(name="test_vit"), 16)
    decoder = {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
    method = make_method(MAESettings(**decoder), backbone)
    (told,) = Watch(builtin(), knn_k=5).advice(method, {"spread": 0.01})
    assert "Lower the learning rate" in told
    assert "temperature" not in told


def watched(method: Method, s: float = 0.0, at_lower: float | None = None) -> Method:
    """The method after a step in which it saw these similarities of negatives."""
    share = None if at_lower is None else torch.tensor([at_lower])
    zero, one = torch.zeros(1), torch.ones(1)
    pairs = PairStats(one, zero + s, 0.1 * one, 0.01 * one, share, None if share is None else zero)
    method.stats = LossStats(replace(pairs, s=one), pairs, {})
    return method


@pytest.fixture(scope="module")
def any_method() -> Method:
    config = small_run(amcl=False)
    return make_method(config.method, Backbone(config.backbone, 32))


def test_projections_that_are_alike_are_no_collapse_of_features(any_method):
    """One sentence without a remedy, where the features are spread out."""
    watch = Watch(builtin(), knn_k=5)
    method = watched(any_method, s=0.955)
    (told,) = watch.advice(method, {"spread": 0.456, "effective_rank": 34.0})
    assert "mean s⁻ 0.955" in told
    assert "collapsed" not in told
    for measured in ({"spread": 0.456, "effective_rank": 1.2}, {"spread": 0.05}):
        assert any("nearly all alike" in each for each in watch.advice(method, measured))
    assert watch.advice(watched(method, s=0.3), {"spread": 0.5, "effective_rank": 30.0}) == []


def test_advice_on_temperatures_is_for_adaptive_ones(any_method):
    watch = Watch(builtin(), knn_k=5)
    spread = {"spread": 0.5, "effective_rank": 30.0}
    assert watch.advice(watched(any_method, at_lower=0.99), spread)
    constant = watch.advice(watched(any_method), {"spread": 0.01, "effective_rank": 1.0})
    adaptive = watch.advice(watched(any_method, at_lower=0.5), {"spread": 0.01})
    assert not any("tau" in each or "temperature" in each for each in constant)
    assert any("--tau-lower" in each for each in adaptive)


@pytest.mark.parametrize(("warmup", "told"), [(0.0, [2, 3, 4, 5]), (3.0, [3, 4, 5])])
def test_nothing_is_told_while_the_run_is_young(tmp_path, caplog, monkeypatch, warmup, told):
    """Neither in the first tenth of the steps nor in the warm-up."""
    monkeypatch.setattr(watching, "_EARLY", 0.3)
    monkeypatch.setattr(Watch, "probe", lambda *args: {"spread": 0.01})
    config = small_run(amcl=False, epochs=5, batch_size=160)
    config = replace(config, optimizer=replace(config.optimizer, warmup_epochs=warmup))
    with caplog.at_level("WARNING", logger="amcl"):
        pretrain(config, tmp_path / "run")
    epochs = re.findall(r"epoch (\d): the features have collapsed", caplog.text)
    assert [int(epoch) for epoch in epochs] == told


@pytest.mark.parametrize(("amcl", "speaks"), [(True, True), (False, False)])
def test_divergence_speaks_of_temperatures_that_adapt(tmp_path, amcl, speaks):
    config = small_run(amcl=amcl)
    config = replace(config, optimizer=replace(config.optimizer, name="sgd", lr=1e9))
    with pytest.raises(NonFiniteError) as stopped:
        pretrain(config, tmp_path / "run")
    assert ("--tau-lower" in str(stopped.value)) == speaks


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [(0.1, []), (4.0, [8, 16, 28, 36]), (100.0, [2, 4, 6, 8, 10, 12, 14, 16, 18])],
    ids=["short epochs", "at most each 30 s", "at most each tenth"],
)
def test_long_epochs_are_told_of_in_lines(caplog, monkeypatch, seconds, steps):
    """Two epochs of 20 steps; the first only where each takes long."""
    clock = {"now": 0.0}
    monkeypatch.setattr("amcl.training.display.time.perf_counter", lambda: clock["now"])
    monkeypatch.setattr("amcl.training.display.console", Console(file=io.StringIO()))
    display, told = Display(40, 20, 8, shown=True), []
    with caplog.at_level("INFO", logger="amcl"), display:
        display.start(0)
        for step in range(1, 41 if seconds < 100 else 21):
            clock["now"] += seconds
            display.advance(step, 1.5)
            told += [step] * len(caplog.records)
            caplog.clear()
            if step % 20 == 0:
                display.mark(step)
    assert told == steps


def test_a_line_within_an_epoch_tells_how_far_it_is(caplog, monkeypatch):
    clock = {"now": 0.0}
    monkeypatch.setattr("amcl.training.display.time.perf_counter", lambda: clock["now"])
    monkeypatch.setattr("amcl.training.display.console", Console(file=io.StringIO()))
    display = Display(40, 20, 8, shown=True)
    display.start(0)
    clock["now"] = 60.0
    with caplog.at_level("INFO", logger="amcl"):
        display.advance(5, 1.5)
        Display(40, 20, 8, shown=False)
    assert caplog.messages == ["epoch 1/2  25 %  loss 1.5000  0.7 images/s  7 min left"]


def test_what_helps_where_images_are_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("amcl.training.messages.usable_cores", lambda: 8)
    folder = picture_folder(tmp_path / "folder")
    config = tiny_vit("simclr", folder)
    assert data_hint(config, load_data(config), 1) == ""  # in memory
    config = replace(config, data=replace(config.data, memory=0.0, workers=2, canvas=24))
    text = data_hint(config, load_data(config), 2)
    assert text == (
        "--workers 4, one for each core (--workers 2 now); shards, where files are on a slow drive "
        "(amcl data pack); smaller files, or a smaller canvas (--canvas 24 now) may help"
    )
    pack(str(folder), tmp_path / "shards")
    source = str(tmp_path / "shards")
    config = replace(config, data=replace(config.data, source=source, workers=8))
    assert data_hint(config, load_data(config), 1).startswith("smaller files, or a smaller canvas")


@pytest.mark.parametrize(
    ("package", "value"), [("tensorboard", True), ("wandb", "mine"), ("mlflow", "mine")]
)
def test_a_missing_tracker_is_told_first(tmp_path, monkeypatch, package, value):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(loop, "load_data", lambda config: pytest.fail("too late"))
    with pytest.raises(RunError, match=f"--{package} needs {package}"):
        pretrain(small_run(**{package: value}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
