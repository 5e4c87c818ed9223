"""The command line: options, errors, exit codes."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import timm

from amcl import recipes
from amcl.backbones import Backbone, BackboneSettings
from amcl.checkpoints import RunFolder, open_model, read_metrics
from amcl.checkpoints.files import export_backbone
from amcl.cli import demo, main
from amcl.cli.command import attempt
from amcl.cli.known_options import KNOWN
from amcl.cli.pretrain import free_folder, parse
from amcl.cli.start import _image_size, start_notes
from amcl.config import Config
from amcl.methods import METHODS

TEMPERATURES_APART = ("scheduled", "macl", "positive-scale", "isogclr")


def amcl_of(method):
    """Return the option that lists those of adaptive temperatures too."""
    return "--amcl" if METHODS[method].settings_class.has_heads else ""


QUICK = ["--epochs", "1", "--batch-size", "80", "--width", "0.125"]
pytestmark = pytest.mark.usefixtures("few_images")


def refused(capsys, *args: str, expected: int = 2) -> str:
    """What the command line says when it refuses; tyro leaves by SystemExit."""
    try:
        code = main(list(args))
    except SystemExit as left:
        code = left.code
    assert code == expected
    return re.sub(r"[\s│╭╮╰╯─]+", " ", capsys.readouterr().err)


def test_from_images_to_a_backbone_and_back(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ["pretrain", "--data", "builtin", "--method", "moco", "--heads", "2", *QUICK]
    args += ["--queue", "256"]
    assert main([*args, "--temperature", "adaptive", "--out", "runs/first"]) == 0
    config = Config.from_file("runs/first/config.toml")
    assert (config.method.name, config.method.heads) == ("moco", 2)
    assert config.method.temperature.name == "adaptive"
    assert Path("runs/first/backbone.safetensors").is_file()
    assert read_metrics("runs/first")[-1]["kind"] == "probe"
    assert main([*args, "--out", "runs/first"]) == 1
    assert "--resume runs/first" in capsys.readouterr().err
    assert main(["pretrain", "--resume", "runs/first", "--epochs", "5", "--queue", "300"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "--queue would change it" in told
    assert "--config runs/first/config.toml" in told
    assert "--init runs/first" in told
    assert main(["pretrain", "--resume", "runs/first", "--workers", "0"]) == 0


def test_defaults_come_from_the_set_and_method():
    settings = parse(["--data", "cifar10", "--method", "barlow"]).settings
    assert settings.data.source == "cifar10"
    assert settings.optimizer.lr == 0.11
    assert parse(["--data", "some/pictures"]).settings.optimizer.name == "adamw"
    assert (settings.method.heads, settings.method.adapts) == (3, True)  # AMCL is the default
    plain = parse(["--data", "cifar10", "--method", "barlow", "--plain"]).settings
    assert (plain.method.heads, plain.method.adapts) == (1, False)


def test_amcl_is_the_default_only_where_it_was_seen_to_gain():
    simsiam = parse(["--data", "cifar10", "--method", "simsiam"]).settings
    assert simsiam.method == recipes.recipe("cifar10-simsiam").method
    with_amcl = parse(["--data", "cifar10", "--method", "simsiam", "--amcl"]).settings
    assert with_amcl.method == recipes.recipe("cifar10-simsiam-amcl").method
    recipe = parse(["--recipe", "cifar10-simsiam-amcl"]).settings
    assert recipe.method.heads == 3
    assert parse(["--recipe", "cifar10-simclr", "--amcl"]).settings.method.heads == 3


def test_a_recipe_can_be_overridden_in_every_part():
    settings = parse(
        [
            *("--recipe", "stl10-moco-amcl", "--epochs", "7", "--views", "ade", "--lr", "0.1"),
            *("--queue", "2048", "--jitter", "0.1", "0.2", "0.3", "0.05", "--width", "0.5"),
            *("--no-symmetric", "--projector", "64", "32", "--data-root", "here"),
        ]
    ).settings
    assert (settings.run.epochs, settings.views.operations, settings.optimizer.lr) == (
        7,
        "ade",
        0.1,
    )
    assert (settings.method.queue, settings.method.symmetric) == (2048, False)
    assert settings.method.projector == (64, 32)
    assert settings.method.heads == 3
    assert settings.views.jitter == (0.1, 0.2, 0.3, 0.05)


@pytest.fixture
def mae(tmp_path):
    """What a run of MAE on CIFAR-100 would leave: a small network, images of 16 pixels."""
    network = BackboneSettings(name="test_vit", pool="mean", stem="small")
    config = recipes.recipe("cifar100-mae")
    config = replace(
        config, backbone=network, data=replace(config.data, image_size=16, validation=77)
    )
    RunFolder(tmp_path / "mae").create(config)
    trained = {"image_size": 16, "mean": [0.5] * 3, "std": [0.25] * 3}
    export_backbone(tmp_path / "mae/backbone.safetensors", Backbone(network, 16), trained)
    return tmp_path / "mae"


@pytest.mark.parametrize("source", ["", "backbone.safetensors"])
def test_init_brings_network_and_images(mae, source):
    before = Config.from_file(mae / "config.toml")
    settings = parse(["--method", "lgp", "--init", str(mae / source)]).settings
    usual = recipes.recipe("cifar100-lgp-amcl")
    assert settings.run.init == str(mae / source)
    assert settings.data == before.data
    assert replace(settings.backbone, pool="mean") == before.backbone
    assert settings.backbone.pool == usual.backbone.pool  # the method's own
    assert (settings.method, settings.optimizer) == (usual.method, usual.optimizer)
    simclr = parse(["--init", str(mae / source)]).settings
    assert (simclr.method.name, simclr.backbone.name) == ("simclr", "test_vit")


def test_what_is_said_comes_before_what_init_brings(mae):
    told = ["--method", "lgp", "--init", str(mae)]
    settings = parse([*told, "--data", "stl10", "--pool", "mean"]).settings
    assert (settings.data.source, settings.data.validation) == ("stl10", 1000)
    assert settings.optimizer == recipes.recipe("stl10-lgp").optimizer
    assert settings.backbone == Config.from_file(mae / "config.toml").backbone
    settings = parse([*told, "--backbone", "test_vit", "--image-size", "32"]).settings
    assert (settings.backbone.stem, settings.backbone.patch) == ("small", 2)  # as they were
    assert (settings.data.source, settings.data.image_size) == ("cifar100", 32)
    recipe = parse(["--recipe", "stl10-lgp", "--init", str(mae)]).settings
    plain = replace(recipe, run=replace(recipe.run, init=None, fit=None))
    assert plain == recipes.recipe("stl10-lgp")


def test_init_from_a_file_that_lies_elsewhere(mae, tmp_path):
    file = shutil.copy(mae / "backbone.safetensors", tmp_path / "elsewhere.safetensors")
    settings = parse(["--method", "lgp", "--init", str(file)]).settings
    assert (settings.data.source, settings.backbone.name) == ("builtin", "test_vit")
    settings = parse(["--method", "lgp", "--init", str(file), "--data", "cifar10"]).settings
    assert (settings.data.source, settings.backbone.name) == ("cifar10", "test_vit")
    assert settings.data.image_size == 16  # that of its positions


def test_options_of_a_first_stage_do_not_go_with_init(mae, capsys):
    told = ["pretrain", "--method", "lgp", "--init", str(mae)]
    said = refused(capsys, *told, "--mask-ratio", "0.3", "--mae-epochs", "7")
    assert (
        "--mask-ratio 0.3 and --mae-epochs 7 belong to LGP's first stage (leave out --init" in said
    )


def test_init_of_a_run_that_has_not_ended(mae, capsys):
    (mae / "backbone.safetensors").unlink()
    told = refused(capsys, "pretrain", "--method", "lgp", "--init", str(mae), expected=1)
    assert f"amcl pretrain --resume {mae}" in told


def test_a_run_goes_on_with_the_start_it_had(mae, tmp_path, capsys):
    config = recipes.recipe("cifar100-lgp")
    folder = RunFolder(tmp_path / "lgp")
    folder.create(replace(config, run=replace(config.run, init=str(mae))))
    resume = ["--resume", str(tmp_path / "lgp")]
    assert parse(resume).settings.run.init == str(mae)
    assert "--init would change it" in refused(capsys, "pretrain", *resume, "--init", "other")


def test_a_file_is_a_start_too(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[method]\nname = "simsiam"\nheads = 2\n[run]\nepochs = 3\n')
    settings = parse(["--config", str(file), "--seed", "5"]).settings
    assert (settings.method.name, settings.run.epochs, settings.run.seed) == ("simsiam", 3, 5)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["pretrain", "--haeds", "3"], "did you mean --heads"),
        (["pretrain", "--recpie", "x"], "--recipe"),
        (["pretrain", "--method", "simlcr"], "simclr"),
        (["pretrain", "--recipe", "cifar10-simlcr"], "did you mean cifar10-simclr"),
        (["pretrain", "--data", "cifar11"], "Did you mean 'cifar10'?"),
        (["pretrain", "--backbone", "resnt18"], "did you mean resnet18"),
        (["pretrain", "--config", "none.toml"], "there is no configuration file none.toml"),
        (["pretrain", "--recipe", "cifar10-moco", "--config", "a"], "both say where to start"),
        (["pretrain", "--recipe", "cifar10-moco", "--method", "simclr"], "does not go with"),
        (["pretrain", "--views", "abz"], "z"),
        (["pretrain", "--method", "moco", "--queue", "9"], "more than the queue of 9 holds"),
        (["pretrain", "--queue", "3"], "--queue belongs to moco and nnclr"),
        (["pretrain", "--lr", "fast"], "fast"),
        (["pretrain", "--method", "mae", "--heads", "3"], "--heads belongs to barlow, byol, can"),
        (
            ["pretrain", "--method", "mae", "--temperature", "adaptive"],
            "--temperature adaptive belongs to",
        ),
        (["pretrain", "--method", "can", "--mask-ration", "0.5"], "did you mean --mask-ratio"),
        (["pretrain", "--method", "can", "--mask-ratio", "1"], "must lie between 0 and 1, got 1"),
        (["pretrain", "--method", "can", "--backbone", "resnet18"], "vit_tiny_patch16_224"),
        (["pretrain", "--method", "mae", "--backbone", "resnet18"], "vit_tiny_patch16_224"),
        (["pretrain", "--method", "lgp", "--thirds", "1", "1"], "Expected 3 values"),
        (["pretrain", "--method", "lgp", "--init", "nowhere"], "nowhere"),
        (["pretrain", "--recipe", "imagenet-mae-amcl"], "no AMCL form"),
        (["demo", "--method", "mae"], "--method mae has no heads"),
        (["pretrian"], "did you mean 'pretrain'?"),
        (["recipes", "show", "cifar10-simlcr"], "did you mean cifar10-simclr"),
        (["recipes", "shwo"], "usage: amcl recipes"),
        (["data", "cifar1"], "cifar10"),
    ],
)
def test_what_is_wrong_is_told_with_what_is_right(capsys, tmp_path, monkeypatch, args, told):
    monkeypatch.chdir(tmp_path)
    assert told in refused(capsys, *args)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_a_run_have_their_own_code(capsys, tmp_path):
    out = str(tmp_path / "run")
    assert main(["pretrain", "--batch-size", "5000", "--out", out]) == 1
    assert "--batch-size" in capsys.readouterr().err
    assert main(["pretrain", "--precision", "bf16", "--accelerator", "cpu", "--out", out]) == 1
    assert main(["pretrain", "--resume", str(tmp_path / "none")]) == 1
    assert "none does not exist" in capsys.readouterr().err
    assert main(["pretrain", *QUICK, "--optimizer", "sgd", "--lr", "1e9", "--out", out]) == 3


def test_recipes_are_listed_and_shown_as_files(capsys, tmp_path):
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert "stl10-moco-amcl" in listed
    assert re.search(r"imagenet-lgp-large-amcl +vit_large.* 800 of MAE and 300 epochs", listed)
    assert "imagenet-mae " in listed
    assert "mae-amcl" not in listed
    assert main(["recipes", "show", "cifar10-simclr-amcl"]) == 0
    shown = capsys.readouterr().out
    assert Config.from_toml(shown).method.heads == 3


def test_help(capsys):
    assert main(["--help"]) == 0
    assert "amcl pretrain" in capsys.readouterr().out
    assert main([]) == 2
    with pytest.raises(SystemExit) as left:
        main(["pretrain", "--method", "moco", "--help-all"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for flag in ("--data", "--heads", "--temperature", "--queue", "--resume", "--recipe"):
        assert flag in shown


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((m, f"pretrain --method {m} {amcl_of(m)}") for m in METHODS),
        *((t, f"pretrain --temperature {t}") for t in TEMPERATURES_APART),
        *((n, n) for n in ("evaluate", "detect", "predict", "embed", "export", "compare", "cost")),
        *((n, n) for n in ("search", "sweep", "curate", "doctor", "demo")),
        *((n.replace(" ", "-"), n) for n in ("data pack", "data check")),
        *((n, n) for n in ("analyze", "reproduce")),
        ("analyze-overlap", "analyze overlap RUN"),
    ],
)
def test_options_are_frozen(capsys, monkeypatch, name, command):
    """Options are a promise to users' scripts: this list changes only on purpose."""
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([*command.split(), "--help-all"])
    flags = sorted(set(re.findall(r"--[a-z][a-z0-9.-]*[a-z0-9]", capsys.readouterr().out)))
    frozen = KNOWN / f"{name}.txt"
    if os.environ.get("AMCL_FREEZE"):
        frozen.write_text("\n".join(flags) + "\n")
    assert flags == frozen.read_text().split()


def test_run_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = parse(["--data", "some pictures/of mine", "--temperature", "adaptive"]).settings
    assert free_folder(config) == Path("runs/of-mine-simclr-adaptive")
    Path("runs/of-mine-simclr-adaptive").mkdir(parents=True)
    assert free_folder(config) == Path("runs/of-mine-simclr-adaptive-2")
    assert free_folder(parse(["--method", "mae"]).settings) == Path("runs/builtin-mae")


@pytest.mark.parametrize("method", ["can", "lgp"])
def test_the_demo_trains_a_method_as_published_and_with_amcl(tmp_path, monkeypatch, method):
    trained = {}
    monkeypatch.setattr(demo, "pretrain", lambda config, out: trained.update({out: config}))
    probes = [{"kind": "probe", "knn_validation": 0.5}]
    monkeypatch.setattr(demo, "read_metrics", lambda run: probes)
    monkeypatch.setattr(demo, "_without_training", lambda config: {})
    out = tmp_path / "demo"
    assert main(["demo", "--method", method, "--epochs", "3", "--out", str(out)]) == 0
    base, amcl = trained[out / method], trained[out / f"{method}-amcl"]
    assert (base.method.name, base.method.heads, amcl.method.heads) == (method, 1, 3)
    assert base.run.epochs == 3
    # LGP's first stage is the same for both, and made once.
    init = str(out / "lgp/mae") if method == "lgp" else None
    assert amcl.run == replace(base.run, init=init)


def test_a_broken_connection_is_an_error(capsys):
    def work():
        raise BrokenPipeError(32, "Broken pipe")

    assert attempt("amcl export", work) == 1
    assert capsys.readouterr().err == "amcl export: [Errno 32] Broken pipe\n"


# -- continued pre-training


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder as timm pushes it to the hub: test_vit for 160 pixels. Do not write into it."""
    folder = tmp_path_factory.mktemp("hub") / "small"
    timm.models.save_for_hf(timm.create_model("test_vit"), folder, safe_serialization=True)
    return folder


def test_a_start_brings_its_network_and_the_recipe_of_continued_training(published):
    settings = parse(["--data", "cifar10", "--init", str(published)]).settings
    assert (settings.backbone.name, settings.backbone.stem) == ("test_vit", "standard")
    assert (settings.data.source, settings.data.image_size) == ("cifar10", 160)
    expected = recipes.continued(recipes.recipe("cifar10-simclr")).optimizer
    assert settings.optimizer == expected
    assert expected.name == "adamw"
    typed = parse(
        ["--data", "cifar10", "--init", str(published), "--lr", "0.1", "--layer-decay", "0.5"]
    ).settings
    assert (typed.optimizer.lr, typed.optimizer.layer_decay) == (0.1, 0.5)


def test_other_images_keep_the_patches_of_the_start(published):
    args = ["--data", "cifar10", "--init", str(published), "--image-size", "32"]
    settings = parse(args).settings
    assert (settings.backbone.patch, settings.data.image_size) == (16, 32)
    assert parse([*args, "--patch", "4"]).settings.backbone.patch == 4


def test_large_images_of_published_weights_become_smaller():
    assert _image_size(open_model("vit_tiny_patch16_384")) == 224
    assert _image_size(open_model("vit_tiny_patch16_224", patch=12, image_size=360)) == 216
    assert _image_size(open_model("resnet10t")) == 176
    own = replace(open_model("resnet10t", width=0.125, image_size=320), step=3)
    assert _image_size(own) == 320


def test_a_short_run_is_frozen_for_a_tenth_of_it_at_most(published):
    args = ["--data", "cifar10", "--init", str(published), "--epochs", "2"]
    optimizer = parse(args).settings.optimizer
    assert 0 < optimizer.freeze_epochs <= 0.2


def test_a_file_of_weights_needs_the_name_of_its_network(published, capsys):
    file = str(published / "model.safetensors")
    told = refused(capsys, "pretrain", "--data", "cifar10", "--init", file)
    assert "does not say which network it holds" in told
    assert "--backbone resnet18" in told
    settings = parse(
        ["--data", "cifar10", "--init", file, "--backbone", "test_vit", "--image-size", "32"]
    ).settings
    assert settings.backbone.name == "test_vit"
    assert settings.optimizer.layer_decay is not None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--init", "START", "--backbone", "resnet18"],
            "--backbone resnet18 does not go with --init START, which holds test_vit",
        ),
        (["--init", "resnet18"], "without weights: timm:resnet18 takes those of timm"),
        (["--freeze-epochs", "2"], "--freeze-epochs 2 belongs to runs that start from trained"),
        (["--freeze-depth", "0.5"], "--freeze-depth 0.5 belongs to frozen layers (--freeze-epochs"),
        (
            ["--method", "lgp", "--layer-decay", "0.5"],
            "--layer-decay 0.5 belongs to methods that do not set the rates of layers themselves: "
            "this run has --thirds",
        ),
    ],
    ids=str,
)
def test_starts_and_layers_that_do_not_go_together(published, capsys, args, message):
    args = [word.replace("START", str(published)) for word in args]
    told = refused(capsys, "pretrain", "--data", "cifar10", *args)
    assert message.replace("START", str(published)) in told


def test_a_method_with_rates_of_its_own_keeps_them(mae):
    optimizer = parse(["--method", "lgp", "--init", str(mae)]).settings.optimizer
    assert (optimizer.layer_decay, optimizer.freeze_epochs) == (None, None)


def test_the_recipe_is_said(published):
    args = ["--data", "cifar10", "--init", str(published), "--lr", "0.1"]
    (note,) = start_notes(args, parse(args).settings)
    assert note.startswith("the recipe of continued pre-training: --optimizer adamw --lr 0.1 ")
    assert start_notes(["--data", "cifar10"], parse(["--data", "cifar10"]).settings) == []
