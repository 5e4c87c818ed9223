"""Configurations as TOML: what is written is what is read, and errors name the nearest."""

import dataclasses
import typing
from dataclasses import replace

import pytest
import tomli_w

from amcl import recipes
from amcl.backbones import BackboneSettings
from amcl.config import Config, DataSettings, HardwareSettings, OptimizerSettings, RunSettings
from amcl.losses.forms import FORMS, OPTIONS
from amcl.methods import METHODS, MoCoSettings, SimCLRSettings
from amcl.temperature import TEMPERATURES, AdaptiveSettings
from amcl.views import ViewSettings


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_is_read_as_it_was_written(name):
    config = recipes.recipe(name)
    again = Config.from_toml(config.to_toml())
    assert again == config
    assert type(again.method) is type(config.method)


def other(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return tuple(v / 2 if isinstance(v, float) else v + 1 for v in value)
    return (value / 2 or 0.5) if isinstance(value, float) else value + 1


CHOICES = {
    "subset": 64,
    "knn_k": 7,
    "stem": "small",
    "backbone.name": "resnet34",
    "patch": 8,
    "pool": "mean",
    "prior_tau": "literal",
    "phi_input": "raw",
    "phi_output": "plain",
    "tau_lower": 0.3,
    "tau_upper": 0.7,
    "head_reduction": "sum",
    "projector_last_norm": "plain",
    "form": "top_k",
    "centering": "sinkhorn",
    "final_weight_decay": 0.4,
    "top_k": 7,
    "momentum_end": 0.9995,
    "decoder_dim": 64,
    "decoder_heads": 4,
    "omega_reduction": "sum",
    "omega_set": "literal",
    "omega_place": "inside",  # outside goes with a softmax
    "similarity": "relative",
    "optimizer.name": "lars",
    "lr_scaling": "sqrt",
    "schedule": "constant",
    "source": "somewhere",
    "data_root": "/data",
    "image_size": 48,
    "canvas": 64,
    "channels": 13,
    "value_range": (0.0, 4095.0),
    "labels": "none",
    "probe": "test",
    "wandb": "project",
    "mlflow": "experiment",
    "accelerator": "cpu",
    "precision": "bf16",
    "strategy": "fsdp",
    "operations": "abe",
    "overlap": 0.5,
    "min_overlap": 0.0,  # not with overlap
    "blur_kernel": 5,
    "batch_size": 512,
    "fit": ("batch_size",),
    "local_size": 48,
    "local_crops": 0,  # no method here takes them
    "accumulate": 4,
    "init": "runs/mae",
    "layer_decay": 0.8,
    "freeze_epochs": 1.5,
    "freeze_depth": 0.5,
}


@pytest.mark.parametrize("method", METHODS)
def test_every_field_is_read_as_it_was_written(method):
    sections = {}
    for section in dataclasses.fields(Config):
        cls = (
            METHODS[method].settings_class if section.name == "method" else section.default_factory
        )
        sections[section.name] = all_other(cls(), section.name)
    config = Config(**sections)
    text = config.to_toml()
    assert Config.from_toml(text) == config
    assert ("[method.temperature]" in text) == config.method.has_heads


def all_other(settings, section):
    """The settings with another value in every field."""
    changed = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name in OPTIONS and field.name != "top_k":  # of other forms, see below
            continue
        if field.name == "temperature":
            adaptive = settings.with_temperature("adaptive").temperature
            changed[field.name] = all_other(adaptive, "temperature")
            continue
        literal = CHOICES.get(f"{section}.{field.name}", CHOICES.get(field.name))
        if field.name == "projector_last_norm" and value == literal:
            literal = "none"  # MoCo v3 has a plain one already
        changed[field.name] = other(value) if literal is None else literal
        if field.name not in ("min_overlap", "omega_place", "local_crops"):
            assert changed[field.name] != value, field.name
    return dataclasses.replace(settings, **changed)


@pytest.mark.parametrize("form", FORMS.names())
def test_every_form_is_read_as_it_was_written(form):
    values = dict.fromkeys(FORMS[form].options, 0.75)
    top_k = 7 if FORMS[form].takes_top_k else None
    config = Config(method=SimCLRSettings(form=form, top_k=top_k, **values))
    assert Config.from_toml(config.to_toml()) == config
    assert all(f"{option} = 0.75" in config.to_toml() for option in values)


@pytest.mark.parametrize("scheme", TEMPERATURES.names())
def test_every_temperature_is_read_as_it_was_written(scheme):
    config = Config(method=SimCLRSettings().with_temperature(scheme))
    assert Config.from_toml(config.to_toml()) == config
    assert f'[method.temperature]\nname = "{scheme}"' in config.to_toml()


def test_a_temperature_has_the_defaults_of_its_method():
    text = '[method]\nname = "simsiam"\n[method.temperature]\nname = "adaptive"\nphi_depth = 2'
    temperature = Config.from_toml(text).method.temperature
    assert temperature == AdaptiveSettings(tau=1.0, beta=3.0, phi_gradient=False, phi_depth=2)


def test_what_is_left_out_has_its_default():
    assert Config.from_toml("") == Config()
    assert Config() == Config(
        data=DataSettings(),
        views=ViewSettings(),
        backbone=BackboneSettings(),
        method=SimCLRSettings(),
        optimizer=OptimizerSettings(),
        run=RunSettings(),
        hardware=HardwareSettings(),
    )
    config = Config.from_toml('[run]\nepochs = 3\n[method]\nname = "moco"\nqueue = 640\n')
    assert config == Config(run=RunSettings(epochs=3), method=MoCoSettings(queue=640))
    assert Config.from_toml("[method]\nheads = 2").method == SimCLRSettings(heads=2)


def test_none_is_left_out_of_the_file():
    text = Config().to_toml()
    assert "wandb" not in text
    assert "image_size" not in text
    assert '[method]\nname = "simclr"\n' in text


def test_whole_numbers_serve_as_floats_and_lists_as_tuples():
    config = Config.from_toml(
        "[optimizer]\nlr = 1\n[method]\nprojector = [64, 32]\n"
        "[method.temperature]\nname = 'adaptive'\nprior_tau = 1\n[views]\njitter = [1, 1, 1, 0.5]\n"
    )
    assert type(config.optimizer.lr) is float
    assert config.method.projector == (64, 32)
    assert type(config.method.temperature.prior_tau) is float
    assert config.views.jitter == (1.0, 1.0, 1.0, 0.5)
    literal = Config.from_toml('[method.temperature]\nname = "adaptive"\nprior_tau = "literal"')
    assert literal.method.temperature.prior_tau == "literal"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[optimiser]\nlr = 1.0", r"section \[optimiser\], which is unknown: .*mean 'optimizer'\?"),
        ("[xyz]\n", r"section \[xyz\], which is unknown: Accepted are data, views, backbone"),
        ("[run]\nepoch = 3", r"\[run\] has 'epoch', which is unknown: did you mean 'epochs'\?"),
        ("[method]\nquue = 3", r"\[method\] has 'quue', which is unknown"),
        ('[method]\nname = "moco"\nquue = 3', "did you mean 'queue'"),
        ('[method]\nname = "simsam"', "name = 'simsam', which is unknown: did you mean 'simsiam'"),
        ("[method]\nname = 3", "name = 3, which is unknown: Accepted are barlow, byol, can"),
        ("method = 3", r"method must be a section \[method\], got 3"),
        ("[[run]]\nepochs = 3", r"run must be a section \[run\]"),
        ("[run]\nepochs = 3.5", r"\[run\] epochs must be int, got 3.5"),
        ('[run]\nepochs = "3"', r"\[run\] epochs must be int, got '3'"),
        ("[run]\nepochs = true", r"\[run\] epochs must be int, got True"),
        ("[optimizer]\nlr = true", r"\[optimizer\] lr must be float, got True"),
        ("[run]\ntensorboard = 1", r"\[run\] tensorboard must be bool, got 1"),
        ("[run]\nwandb = 1", r"\[run\] wandb must be str \| None, got 1"),
        ("[method]\nprojector = 512", r"\[method\] projector must be tuple\[int, ...\], got 512"),
        ('[method]\nprojector = [5, "a"]', r"\[method\] projector must be int, got 'a'"),
        ("[views]\njitter = [0.4]", r"\[views\] jitter must be tuple\[float, .*got \[0.4\]"),
        (
            '[optimizer]\nname = "adam"',
            r"\[optimizer\] name must be one of 'sgd', 'lars', 'adamw'; got 'adam'",
        ),
        ("[run]\nepochs = 0", r"\[run\]: epochs must be a whole number, at least 1"),
        ("[optimizer]\nlr = nan", r"\[optimizer\]: lr must be a finite number above 0"),
        ('[backbone]\nname = "resnet81"', r"\[backbone\]: there is no timm model"),
        ("[method]\ntemperature = 'adaptive'", r"\[method.temperature\] must be a section, as in"),
        ("[method.temperature]\nname = 'adaptve'", "'adaptve', which is unknown: .*'adaptive'"),
        (
            "[method.temperature]\nbeta = 1.0",
            r"\[method.temperature\] has 'beta', which is",
        ),
        ("[method.temperature]\ntau = 0", r"\[method.temperature\]: tau must be a finite number"),
        (
            "[method]\nname = 'simsiam'\n[method.temperature]\nname = 'uncertainty'",
            r"\[method.temperature\]: temperature='uncertainty' is a further output of projectors",
        ),
        (
            "[method]\nname = 'mae'\n[method.temperature]\ntau = 0.1",
            r"\[method.temperature\]: mae has no heads",
        ),
        ("[run\n", "recipe.toml is not TOML: "),
        ("[run]\nepochs = 1\nepochs = 2", "recipe.toml is not TOML: "),
    ],
)
def test_errors_say_where_and_what_is_accepted(text, message):
    with pytest.raises(ValueError, match=message) as error:
        Config.from_toml(text, "recipe.toml")
    assert str(error.value).startswith("recipe.toml")


def test_a_list_is_no_name_of_a_method():
    with pytest.raises(ValueError, match=r"which is unknown: did you mean .simclr"):
        Config.from_toml('[method]\nname = ["simclr"]')


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (RunSettings, {"batch_size": 100, "accumulate": 3}, "batch_size=100 does not divide"),
        (RunSettings, {"log_every": 0}, "log_every must be a whole number"),
        (RunSettings, {"save_every": 0}, "save_every must be a whole number"),
        (DataSettings, {"labels": "auto2"}, "labels must be one of"),
        (DataSettings, {"probe": "train"}, "probe must be one of"),
        (DataSettings, {"memory": -1}, "memory must be a finite number, at least 0"),
        (HardwareSettings, {"devices": 1.5}, "devices must be a whole number, at least 0, got 1.5"),
        (HardwareSettings, {"threads": 0.5}, "threads must be a whole number"),
        (RunSettings, {"keep_every": 2.5}, "keep_every must be a whole number"),
        (DataSettings, {"workers": -1}, "workers must be a whole number, at least 0, got -1"),
        (DataSettings, {"validation": -1}, "validation must be a whole number, at least 0, got -1"),
        (HardwareSettings, {"accelerator": "tpu"}, "accelerator must be one of"),
        (HardwareSettings, {"precision": "8"}, "precision must be one of"),
        (HardwareSettings, {"nodes": 0}, "nodes must be a whole number"),
    ],
)
def test_settings_are_checked(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(**options)


def test_the_queue_must_hold_the_keys_of_a_step():
    text = '[method]\nname = "moco"\nqueue = {}\n[run]\nbatch_size = 64\n'
    with pytest.raises(ValueError, match=r"recipe: .*128 projections, more than the queue of 127"):
        Config.from_toml(text.format(127), "recipe")
    assert Config.from_toml(text.format(128)).method.queue == 128
    one_way = text.format(64).replace("[run]", "symmetric = false\n[run]")
    assert Config.from_toml(one_way).method.queue == 64
    assert Config.from_toml(text.format(0)).method.queue == 0


def test_files_are_read_and_named_in_errors(tmp_path):
    path = tmp_path / "recipe.toml"
    with pytest.raises(ValueError, match=r"there is no configuration file .*recipe\.toml"):
        Config.from_file(path)
    path.write_text(tomli_w.dumps({"run": {"epochs": 7}, "data": {"source": "Blüten"}}), "utf-8")
    assert Config.from_file(path) == Config(
        run=RunSettings(epochs=7), data=DataSettings(source="Blüten")
    )
    path.write_text("[run]\nepochs = 0", "utf-8")
    with pytest.raises(ValueError, match=r"recipe\.toml: \[run\]: epochs must be"):
        Config.from_file(str(path))


@pytest.mark.parametrize("method", METHODS)
def test_what_is_left_out_of_a_file_for_being_none_is_none_when_read(method):
    """A field that may be None must have None for its default, or a resumed run is another."""
    for field in dataclasses.fields(METHODS[method].settings_class):
        if type(None) in typing.get_args(
            typing.get_type_hints(METHODS[method].settings_class)[field.name]
        ):
            assert field.default is None, field.name


@pytest.mark.parametrize(
    ("recipe", "run", "negatives"),
    [
        ("builtin-simclr-amcl", {"batch_size": 32}, 62),
        ("builtin-simclr-amcl", {"batch_size": 32, "accumulate": 2}, 30),
        ("builtin-moco-amcl", {"batch_size": 32}, 512),  # its queue
        ("builtin-mocov3-amcl", {"batch_size": 32}, 31),
    ],
)
def test_more_hardest_negatives_than_there_are_is_an_error_at_once(recipe, run, negatives):
    config = recipes.recipe(recipe)
    config = replace(config, run=replace(config.run, **run))
    method = replace(config.method, form="top_k_softmax", top_k=negatives)
    assert replace(config, method=method).negatives == negatives
    with pytest.raises(ValueError, match=rf"κ\) is more than the {negatives} negatives"):
        replace(config, method=replace(method, top_k=negatives + 1))


def test_a_folder_is_kept_by_its_absolute_path(tmp_path, monkeypatch):
    """Runs are resumed and evaluated from other working folders."""
    (tmp_path / "here" / "pictures").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    for given in ("pictures", "./pictures/", "../here/pictures", str(tmp_path / "here/pictures")):
        settings = DataSettings(source=given, data_root="sets")
        assert settings.source == str(tmp_path / "here" / "pictures")
        assert settings.data_root == str(tmp_path / "here" / "sets")
        assert settings.name == "pictures"
    kept = Config(data=DataSettings(source="pictures"))
    text = kept.to_toml()
    monkeypatch.chdir(tmp_path)
    assert Config.from_toml(text) == kept
    # Names of sets, the placeholder of recipes, and what is not there are left as they are.
    for name in ("builtin", "cifar10", "FOLDER", "pictures", "nowhere/at/all"):
        (tmp_path / "cifar10").mkdir(exist_ok=True)
        (tmp_path / "FOLDER").mkdir(exist_ok=True)
        assert DataSettings(source=name).source == name
        assert DataSettings(source=name).name == name.split("/")[-1]
