"""The text of --help and --help-all, and what is missing on a command line."""

import contextlib
import importlib
import io
import re
import shlex
import sys

import pytest
import tyro

from amcl import recipes
from amcl.cli import COMMANDS, GROUPS, main
from amcl.cli.declared import options_of
from amcl.cli.help import Help
from amcl.cli.pretrain import Options, parse
from amcl.config import Config

WITHOUT_OPTIONS = ("recipes", "models", "completion")
WITH_OPTIONS = [name for name in COMMANDS if name not in WITHOUT_OPTIONS]


class Parsed(BaseException):
    """Raised in place of carrying out a command whose words were all understood."""


def help_of(*words: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        assert main(list(words)) == 0
    return shown.getvalue()


def help_in(name: str) -> Help:
    return importlib.import_module(f"amcl.cli.{name}").HELP


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """A folder with a run and images, where commands stop once their words are understood."""
    monkeypatch.chdir(tmp_path)
    for run in ("runs/first", "runs/mae"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "config.toml").write_text(Config().to_toml())
    (tmp_path / "FOLDER").mkdir()
    ours = tyro.cli

    def cli(*args, **options):
        ours(*args, **options)
        raise Parsed

    monkeypatch.setattr(tyro, "cli", cli)
    start = sys.modules["amcl.cli.start"]
    monkeypatch.setattr(start, "_continued", lambda start: recipes.default("builtin", "simclr"))


def test_every_command_is_in_a_group():
    shown = help_of("--help")
    for title, commands in GROUPS.items():
        assert f"\n{title}:\n" in shown
        assert all(f"\n  {name:<11} " in shown for name in commands)
    assert help_of("help") == shown


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_every_command_has_three_examples_that_it_understands(name, parsed):
    examples = help_in(name).examples
    assert len(examples) >= 3
    for _, line in examples:
        _, command, *words = shlex.split(line)
        with pytest.raises(Parsed):
            assert main([command, *words]) == "understood"


@pytest.mark.parametrize("name", WITHOUT_OPTIONS)
def test_commands_without_options_have_three_examples_that_run(name, capsys):
    shown = help_of(name, "--help")
    assert help_of(name, "--help-all") == shown
    prose = [line for line in shown.splitlines() if not line.startswith("  amcl ")]
    assert max(map(len, prose)) <= 80
    examples = re.findall(r"^  (?:source <\()?amcl (.+?)(?:\)| > .+)?$", shown, re.M)
    assert len(examples) >= 3
    for words in examples:
        assert main(words.split()) == 0
        assert capsys.readouterr().out


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_help_is_short_unless_all_is_asked_for(name):
    text = help_in(name)
    short, all_options = help_of(name, "--help"), help_of(name, "--help-all")
    rows = re.findall(r"^  (--[a-z][a-z.-]*)", short, re.M)
    assert len(rows) <= 13
    if text.main:
        assert [row.removeprefix("--") for row in rows] == list(text.main)
        hidden = int(re.search(r"^(\d+) other options: amcl [a-z]+ --help-all$", short, re.M)[1])
        assert hidden + len(rows) == len(re.findall(r"^  --", all_options, re.M))
    else:
        assert short == all_options
    for shown in (short, all_options):
        assert shown.startswith(f"usage: amcl {name}")
        assert "None" not in shown
        assert "settings.data" not in shown
        prose = [line for line in shown.splitlines() if not line.startswith("  amcl ")]
        assert max(map(len, prose)) <= 80


def test_all_options_are_listed_by_group_with_their_defaults():
    shown = help_of("pretrain", "--method", "moco", "--help-all")
    titles = re.findall(r"^([A-Z]\w+)(?: o|O)ptions:$", shown, re.M)
    assert titles == [
        *("Data", "Views", "Backbone", "Method", "Temperature", "Optimizer", "Run", "Hardware")
    ]
    assert re.search(r"^  --queue INT ", shown, re.M)
    assert re.search(r"^  --crop-scale FLOAT FLOAT ", shown, re.M)
    assert re.search(r"^  --probe validation\|test\|none$", shown, re.M)
    assert re.search(r"--epochs INT +Passes over the training images\. \(default: 30\)", shown)


def test_help_shows_the_defaults_of_the_recipe():
    for data in ("cifar10", "builtin"):
        epochs = recipes.default(data, "simclr").run.epochs
        shown = help_of("pretrain", "--data", data, "--help")
        assert re.search(rf"--epochs INT .*\(default: {epochs}\)", shown)


@pytest.mark.parametrize("method", ["moco", "lgp"])
def test_options_have_the_names_that_the_parser_gives_them(method):
    base = parse(["--method", method])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
        tyro.cli(Options, args=["--help"], default=base)
    theirs = set(re.findall(r"(?<=[ ,│|])--[a-z][a-z-]+", shown.getvalue()))
    ours = {name for option in options_of(Options, base) for name in option.names}
    assert ours == theirs - {"--help"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("embed", "MODEL, --data FOLDER|NAME and --out PATH are missing: --help shows examples."),
        ("embed run --data x", "--out PATH is missing: --help shows examples."),
        ("embed run more --data x --out y", "'more' is too much: the command takes MODEL."),
        ("export run --out", "--out takes PATH, and no value is given."),
        ("pretrain images", "'images' is too much: the command takes options alone."),
        ("compare --metrics top1", "RUN ... is missing: --help shows examples."),
        ("evaluate --protocols knn linear", "MODEL is missing: --help shows examples."),
    ],
)
def test_what_is_missing_or_too_much_is_one_line(words, message, capsys):
    assert main(words.split()) == 2
    command = words.split()[0]
    assert capsys.readouterr().err == f"amcl {command}: {message}\n"


def test_values_are_told_from_arguments(parsed):
    for words in (
        "compare a b --metrics top1 top5 --json new.json",
        "evaluate --seed 1 run --protocols knn linear",
        "evaluate run --mean 1 2 3",
        "export --onnx run",
        "compare --baseline=a a b",
        "pretrain --crop-scale 0.2 1 --jitter 0.4 0.4 0.4 0.1",
    ):
        with pytest.raises(Parsed):
            main(words.split())
