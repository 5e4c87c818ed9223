"""What the command line says of options that are wrong, or would be ignored."""

import re
import sys
from pathlib import Path

import pytest
import torch

from amcl import recipes
from amcl.cli import analyze, cost, evaluate, main, search, sweep
from amcl.cli.cautions import cautions
from amcl.cli.curate import HELP as CURATE_HELP
from amcl.cli.curate import Curate
from amcl.cli.declared import options_of
from amcl.cli.known_options import mistyped
from amcl.cli.options import read_options
from amcl.cli.pretrain import Options, parse
from amcl.config import Config
from amcl.config.options import settings_of
from amcl.config.rules import rules_of
from amcl.methods import METHODS

AMCL = ["--heads", "3", "--temperature", "adaptive"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            "--plain --beta 7",
            "--beta belongs to --temperature adaptive, adaptive-negative, adaptive-positive, "
            "first-head, one-sided: this run has --temperature constant.",
        ),
        (
            "--plain --tau-lower 0.05",
            "--tau-lower belongs to --temperature adaptive, adaptive-negative, adaptive-positive, "
            "dystress, first-head, isogclr, one-sided, scheduled: this run has --temperature ",
        ),
        ("--prior-tau 0.3 --temperature learnable", "this run has --temperature learnable"),
        ("--plain --phi-depth 2", "--phi-depth belongs to --temperature adaptive"),
        ("--plain --no-phi-gradient", "--no-phi-gradient belongs to --temperature adaptive"),
        ("--tau-period 9", "--tau-period belongs to --temperature scheduled: this run has"),
        ("--temperature scheduled --tau 0.3", "--tau belongs to --temperature adaptive"),
        (
            "--heads 3 --temperature adaptive --prior-tau 0.2 --tau 0.3",
            "this run has --temperature adaptive --prior-tau 0.2.",
        ),
        (
            "--heads 3 --temperature adaptive --phi-output plain --phi-scale 3",
            "--phi-scale 3 belongs to a centered φ (--phi-output centered)",
        ),
        (
            "--plain --head-reduction sum",
            "belongs to several heads (--heads 3): this run has --heads 1.",
        ),
        ("--plain --resume x", "--plain"),
        ("--plain --method mae", "--plain is about several heads"),
        ("--amcl --resume x", "--amcl"),
        ("--amcl --method mae", "--amcl is about several heads"),
        ("--amcl --plain", "--plain and --amcl"),
        ("--top-k 5", "--form softmax takes no --top-k"),
        ("--views ae --blur-p 1 1", "--blur-p 1 1 belongs to blurs (the letter b in --views)"),
        ("--optimizer adamw --sgd-momentum 0.5", "belongs to SGD and LARS (--optimizer sgd)"),
        (
            "--method barlow --plain --omega-reduction sum",
            "--omega-reduction sum belongs to adaptive",
        ),
        ("--method simsiam --plain --no-shared-projector", "(--heads 3)"),
        ("--mask-ratio 0.3", "--mask-ratio belongs to can, lgp and mae: this run has --method sim"),
        ("--method mae --heads 3", "barlow, byol, can, dino, lgp, moco, mocov3, nnclr, simclr"),
        ("--queue 9", "--queue belongs to moco and nnclr: this run has --method simclr."),
        ("--no-symmetric", "--no-symmetric belongs to moco"),
        ("--eta 0.1", "set with --tau-lower, which is η, and --tau-upper, which is η + ι"),
        ("--iota 0.1", "--tau-lower, which is η"),
        ("--epochz 3", "there is no option --epochz: did you mean --epochs"),
        ("--xyzzy", "there is no option --xyzzy: --help lists them."),
        ("--temperature adaptve", "no choice 'adaptve': did you mean adaptive? Choose from"),
        ("--method swav", "--method has no choice 'swav': Choose from barlow, byol, can"),
        ("--temperature=adaptve", "did you mean adaptive?"),
        ("--epochs 1.5", "--epochs takes a whole number, got '1.5'."),
        ("--lr fast", "--lr takes a number, got 'fast'."),
        ("--prior-tau x", "--prior-tau takes a number or 'literal', got 'x'."),
        ("--prior-tau 0.1 0.2 x", "--prior-tau takes a number or 'literal', got 'x'."),
        ("--prior-tau 0.1 0.2", "--prior-tau has 2 temperatures and there are 3 heads"),
        ("--plain --head-diversity 1", "and there is one head: use num_heads=3 (--heads 3)"),
        ("--heads 3 --macl-alpha 0.3", "--macl-alpha belongs to --temperature macl: this run has"),
        ("--method simsiam --temperature isogclr", "negative pairs, and SimSiam has none"),
        ("--method barlow --temperature one-sided", "is that of an image, and Barlow Twins"),
        ("--method dino --temperature artanh", "DINO does not divide similarities"),
        ("--jitter 0.4 x 0.4 0.1", "--jitter takes a number, got 'x'."),
        ("--epochs 0", "--epochs must be a whole number, at least 1, got 0"),
        ("--batch-size 10 --accumulate 3", "--batch-size 10 does not divide into --accumulate 3"),
        ("--mask-ratio 2 --method mae", "--mask-ratio must lie between 0 and 1, got 2.0"),
        ("--views abz", "--views abz has no operation for 'z'"),
        (
            "--heads 3 --temperature adaptive --tau-lower 0.5 --tau-upper 0.1",
            "--tau-lower < --tau-upper: got --tau-lower 0.5, --tau-upper 0.1.",
        ),
    ],
)
def test_pretrain_refuses(args, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        parse(["--data", "builtin", *args.split()])
    assert "settings." not in str(error.value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--select 3 --by typcal", "--by has no choice 'typcal': did you mean typical?"),
        ("--export coco fiftyon", "--export has no choice 'fiftyon': did you mean fiftyone?"),
        ("--link x --link-kind hrd", "--link-kind has no choice 'hrd': did you mean hard?"),
    ],
)
def test_choices_that_may_be_absent_or_several_are_named(args, message):
    given = ["MODEL", "--data", "builtin", "--out", "x", *args.split()]
    with pytest.raises(ValueError, match=re.escape(message)):
        read_options(Curate, given, command="amcl curate", help=CURATE_HELP)


@pytest.mark.parametrize(
    "args",
    [
        "--beta 0.1",  # as it is
        "--heads 3 --temperature adaptive --beta 7 --tau-lower 0.05 --tau-upper 0.5 --phi-depth 2",
        "--heads 3 --temperature adaptive-positive --tau 0.3",
        "--temperature scheduled --tau-lower 0.05 --tau-period 10",
        "--form top_k --top-k 5",
        "--prior-tau literal --heads 3 --temperature adaptive",
        "--image-size None --batch_size 64 --tau=0.3",
        "--recipe builtin-simclr-amcl --beta 0.2",
        "--recipe builtin-simclr-amcl --temperature constant",
    ],
)
def test_pretrain_takes(args):
    parse(args.split())


def test_a_file_written_by_hand_sets_nothing_in_vain(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[method.temperature]\nbeta = 7.0\n")
    with pytest.raises(ValueError, match=r"mine.toml: \[method.temperature\] has 'beta'"):
        parse(["--config", str(file)])
    file.write_text("[method]\nsimilarity = 'relative'\n")
    with pytest.raises(ValueError, match=r"similarity = .* belongs to adaptive temperatures"):
        parse(["--config", str(file)])
    file.write_text("[method.temperature]\nname = 'adaptive'\nbeta = 7.0\n")
    assert parse(["--config", str(file)]).settings.method.temperature.beta == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes.names())
def test_files_that_runs_write_are_taken_whatever_is_in_them(tmp_path, name):
    file = tmp_path / "config.toml"
    config = recipes.recipe(name)
    file.write_text(config.to_toml())
    data = ["--data", "builtin"] if config.data.source == "FOLDER" else []
    assert parse(["--config", str(file), *data]).settings.method == config.method


def test_grids_and_searches_that_vary_a_temperature_take_what_belongs_to_some_of_them():
    out = ["--out", "x"]
    _, points = sweep.parse(["--grid", "temperature=constant,adaptive", "--beta", "0.3", *out])
    assert points[1].config.method.temperature.beta == 0.3
    with pytest.raises(ValueError, match=r"--beta belongs to --temperature adaptive"):
        sweep.parse(["--plain", "--grid", "tau=0.1,0.2", "--beta", "0.3", *out])
    _, points = sweep.parse(["--grid", "tau=0.1,0.2", "--beta", "0.3", *out])
    assert [point.config.method.heads for point in points] == [3, 3]
    both = "recipe=builtin-simclr,builtin-simclr-amcl"
    _, points = sweep.parse(["--grid", both, "--beta", "0.3", *out])
    assert [point.config.method.temperature.name for point in points] == ["constant", "adaptive"]
    assert points[1].config.method.temperature.beta == 0.3
    varied = ["--plain", "--grid", "temperature=constant,adaptive", "--no-phi-gradient", *out]
    assert not sweep.parse(varied)[1][1].config.method.temperature.phi_gradient
    space = ["--space", "temperature=constant,adaptive", "lr=1e-3:1:log"]
    assert search.parse([*space, "--beta", "0.3", *out]).settings.method.temperature.beta == 0.3
    with pytest.raises(ValueError, match=r"--beta belongs to --temperature adaptive"):
        search.parse(["--plain", "--space", "lr=1e-3:1:log", "--beta", "0.3", *out])
    assert cost.parse(["--beta", "0.3"]).settings.method.temperature.beta == 0.3
    assert analyze.parse(["heads", "--beta", "0.3", *out]).settings.method.temperature.beta == 0.3


def test_rules_name_fields_that_exist():
    names: set[str] = set()
    rules = set()
    for settings in [METHODS[name].settings_class for name in METHODS]:
        config = Config(method=settings())
        names |= settings_of(config).keys()
        rules |= set(rules_of(config))
    assert len(rules) > 10
    for rule in rules:
        assert {*rule.fields, *rule.depends} <= names


def test_evaluation_names_the_option_of_its_protocol():
    with pytest.raises(ValueError, match=r"--finetune.warmup-epochs .*--finetune.epochs 1"):
        evaluate.parse(["runs/first", "--finetune.epochs", "1", "--finetune.warmup-epochs", "5"])


def test_an_analysis_is_named_before_anything_else_is_missing(capsys):
    assert main(["analyze", "headz"]) == 2
    told = capsys.readouterr().err
    assert "did you mean 'heads'?" in told
    assert "--out" not in told


def test_a_run_that_is_not_there(capsys, tmp_path):
    assert main(["pretrain", "--resume", str(tmp_path / "nope")]) == 1
    assert "nope does not exist" in " ".join(capsys.readouterr().err.split())


def test_a_folder_of_nearly_this_name_is_suggested(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("messy").mkdir()
    assert main(["pretrain", "--data", "mesy", "--out", "run"]) == 2
    assert "Did you mean 'messy'?" in " ".join(capsys.readouterr().err.split())


def test_what_is_seldom_meant_is_said():
    def said(*args):
        return " ".join(cautions(parse(["--data", "builtin", *args]).settings))

    assert said() == ""
    assert "both views of an image are the same picture" in said("--views", "")
    assert "--image-size 7 is very small" in said("--image-size", "7")
    assert "--heads 1000 is more than" in said("--heads", "1000")
    assert re.search(r"there are \d\d[\d.]* million more", said("--heads", "1000"))
    assert said("--method", "mae", "--views", "") == ""


def test_what_is_seldom_meant_is_said_before_the_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["amcl.cli.pretrain"], "pretrain", lambda *args: None)
    told = ["pretrain", "--data", "builtin", "--image-size", "7", "--out", str(tmp_path / "run")]
    assert main(told) == 0
    assert "--image-size 7 is very small" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["simclr"])
def test_no_option_that_there_is_is_taken_for_mistyped(method):
    base = parse(["--method", method])
    for option in options_of(Options, base):
        assert mistyped("pretrain", ["--method", method, option.name]) == ""
        assert mistyped("sweep", ["--method", method, f"{option.name.replace('-', '_')}=1"]) == ""


def test_a_mistyped_option_is_answered_with_the_nearest():
    assert "--epochz: did you mean --epochs" in mistyped("pretrain", ["--epochz", "3"])
    assert mistyped("pretrain", ["--method", "of-another-package", "--epochz", "3"]) == ""
    assert mistyped("pretrain", ["--queue", "3"]) == ""  # the command says whose it is


def test_piped_text_is_neither_wrapped_nor_padded(capsys):
    long = "word " * 60
    import logging

    from amcl.cli.output import results_console
    from amcl.training.display import log_to_console

    log_to_console()
    logging.getLogger("amcl").warning(long.strip())
    assert long.strip() in capsys.readouterr().err.splitlines()
    from rich.table import Table

    table = Table("a", "b")
    table.add_row(long.strip(), "c")
    results_console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert any(long.strip() in line for line in lines)
    assert lines == [line.rstrip() for line in lines]


def test_python_says_what_it_takes():
    import amcl
    from amcl.backbones import Backbone, BackboneSettings
    from amcl.metrics.features import extract
    from amcl.views import Views

    class ModelOutput:
        def __init__(self, **values):
            vars(self).update(values)

    heads = amcl.ProjectionHeads(8, 4, num_heads=3)
    assert "num_heads=3, in_features=8, out_features=4, bias=True" in repr(heads)
    states = torch.randn(2, 5, 8)
    with pytest.raises(TypeError, match=r"got a ModelOutput: give its .pooler_output"):
        heads(ModelOutput(last_hidden_state=states, pooler_output=states[:, 0]))
    with pytest.raises(TypeError, match=r"give its .last_hidden_state\[:, 0\]"):
        heads(ModelOutput(last_hidden_state=states, pooler_output=None))

    class Transformer(torch.nn.Module):
        def forward(self, images):
            return ModelOutput(last_hidden_state=states)

    with pytest.raises(TypeError, match=r"got a ModelOutput: give its .last_hidden_state"):
        extract(Transformer(), [states], lambda batch: batch)
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), 32)
    with pytest.raises(TypeError, match=r"floating-point images, got torch.uint8: divide"):
        backbone(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"\(N, 3, S, S\), got \(2, 1, 32, 32\): images.expand"):
        backbone(torch.zeros(2, 1, 32, 32))
    with pytest.warns(UserWarning, match=r"'resnet10t' is a timm model .* weights are random"):
        amcl.load("resnet10t")
    views, images = Views(32), torch.randint(256, (4, 3, 40, 40), dtype=torch.uint8)
    seeded = [views(images, generator=torch.Generator().manual_seed(n)) for n in (1, 1, 2)]
    assert torch.equal(seeded[0], seeded[1])
    assert not torch.equal(seeded[0], seeded[2])
    assert not torch.equal(views(images), views(images))
    parameters = views.draw(4, generator=torch.Generator())
    with pytest.raises(ValueError, match=r"\bparameters\b.*\bgenerator\b"):
        views(images, parameters, generator=torch.Generator())
