"""The documents say what is so: their code runs, and what they name exists."""

import ast
import importlib
import inspect
import pkgutil
import re
import shlex
from dataclasses import is_dataclass, replace
from pathlib import Path

import pytest
import timm
import torch
import tyro

import amcl
import amcl.methods
from amcl import recipes
from amcl.backbones import Backbone, BackboneSettings
from amcl.checkpoints import load, open_model
from amcl.checkpoints.files import export_backbone
from amcl.cli import (
    analyze,
    compare,
    cost,
    curate,
    detect,
    embed,
    evaluate,
    export,
    report,
    reproduce,
    search,
    sweep,
)
from amcl.cli.pretrain import parse
from amcl.evaluation import PROTOCOLS
from amcl.experiments import ANALYSES, ENTRIES, SCALES
from amcl.files import write_text
from amcl.search import space_from

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(document):
    return re.findall(r"^```python\n(.*?)^```", document.read_text(), re.M | re.S)


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if python_blocks(d)], ids=lambda path: path.name
)
@pytest.mark.usefixtures("few_images")
def test_code_blocks_run(document, capsys, tmp_path, monkeypatch):
    """All blocks of a document in turn, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in python_blocks(document):
        exec(compile(block, str(document), "exec"), namespace)


def commands():
    """Every `amcl pretrain …` that the documents tell a reader to type."""
    for document in [*DOCUMENTS, ROOT / "src/amcl/cli/demo.py"]:
        for line in document.read_text().splitlines():
            if found := re.match(r"\s*amcl pretrain( .*)$", line):
                yield pytest.param(re.split(r"\s{3,}| #", found[1])[0], id=found[1].strip()[:50])


@pytest.mark.parametrize("command", list(commands()))
def test_commands_are_understood(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs/first"
    run.mkdir(parents=True)
    (run / "config.toml").write_text(recipes.recipe("builtin-simclr").to_toml())
    if start := re.search(r"--init (runs/\w+)", command):
        (tmp_path / start[1]).mkdir(exist_ok=True)
        backbone = Backbone(BackboneSettings(name="test_vit"), 16)
        trained = {"mean": (0.5,) * 3, "std": (0.5,) * 3}
        export_backbone(tmp_path / start[1] / "backbone.safetensors", backbone, trained)
    if "--init weights.pth" in command:
        torch.save(timm.create_model("resnet50").state_dict(), "weights.pth")
    hub = replace(open_model("test_vit"), untrained=False)  # in the place of any other
    monkeypatch.setattr(load, "_of_hub", lambda name, options: hub)
    (tmp_path / "mine.toml").write_text(recipes.recipe("builtin-moco").to_toml())
    parse(shlex.split(command.replace("FOLDER", "pictures")))


def evaluations():
    """Every other command with options that the documents tell a reader to type."""
    for document in DOCUMENTS:
        for line in document.read_text().splitlines():
            if found := re.match(
                r"\s*amcl (evaluate|embed|export|compare|curate|detect)( .*)$", line
            ):
                args = re.split(r"\s{3,}| #", found[2])[0]
                yield pytest.param(found[1], args, id=f"{found[1]}{args}"[:50])


@pytest.mark.parametrize(("command", "args"), list(evaluations()))
def test_commands_of_evaluation_are_understood(command, args):
    words = shlex.split(args)
    if command == "evaluate":
        options, _ = evaluate.parse(words)
        assert set(options.protocols) <= set(PROTOCOLS.names())
    else:
        commands = {
            "embed": embed.Embed,
            "export": export.Export,
            "compare": compare.Compare,
            "curate": curate.Curate,
            "detect": detect.Options,
        }
        tyro.cli(commands[command], args=words)


def searches():
    """Every search and sweep that the documents tell a reader to type."""
    for document in DOCUMENTS:
        for line in document.read_text().splitlines():
            if found := re.match(r"\s*amcl (search|sweep)( .*)$", line):
                yield pytest.param(found[1], found[2], id=f"{found[1]}{found[2]}"[:70])


@pytest.mark.parametrize(("command", "args"), list(searches()))
def test_searches_and_sweeps_are_understood(command, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(args.replace("FOLDER", "pictures"))
    for name in re.findall(r"studies/\w+/\w+\.toml", args):
        write_text(Path(name), recipes.recipe("builtin-moco").to_toml())
    if command == "sweep" and "--grid" not in words:
        with pytest.raises(ValueError, match=r"--grid tau="):
            sweep.parse(words)
    elif command == "sweep":
        _, points = sweep.parse(words)
        assert points
    else:
        options = search.parse(words)
        assert space_from(options.settings, options.space or ["paper"])


def reports():
    """Every report, analysis, table and cost that the documents tell a reader to ask for."""
    for document in DOCUMENTS:
        for line in document.read_text().splitlines():
            if found := re.match(r"\s*amcl (report|analyze|reproduce|cost)( .*)$", line):
                args = re.split(r"\s{3,}| #", found[2])[0]
                yield pytest.param(found[1], args, id=f"{found[1]}{args}"[:50])


@pytest.mark.parametrize(("command", "args"), list(reports()))
def test_commands_of_reports_are_understood(command, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(Path("runs/first/config.toml"), recipes.recipe("builtin-simclr").to_toml())
    words = shlex.split(args.replace("FOLDER", "pictures"))
    if command == "report":
        tyro.cli(report.Options, args=words)
    elif command == "reproduce":
        asked = tyro.cli(reproduce.Options, args=words)
        assert asked.list or set(asked.names) <= {*ENTRIES, "all"}
    else:
        {"analyze": analyze, "cost": cost}[command].parse(words)


def test_every_analysis_and_scale_is_documented():
    text = (ROOT / "docs/reports.md").read_text()
    for name in (*ANALYSES, *SCALES):
        assert f"| `{name}` |" in text


def test_there_are_code_blocks():
    assert sum(len(python_blocks(document)) for document in DOCUMENTS) >= 6


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def rows():
    """The rows of docs/equations.md's tables of equations, as lists of cells."""
    text = (ROOT / "docs/equations.md").read_text()
    for line in text.split("## Departures")[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if (
            line.startswith("|")
            and len(cells) >= 3
            and cells[1] != "function"
            and "---" not in line
        ):
            yield cells


def test_every_equation_names_a_function_and_a_test_that_exist():
    tests = {
        f"{path.relative_to(ROOT / 'tests')}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    found = list(rows())
    assert len(found) >= 25
    for equation, functions, proofs, *_ in found:
        names = re.findall(r"`((?:\w+\.)?\w+)`", functions)
        assert names, f"{equation}: no function"
        for name in names:
            if name in ("head_reduction", "omega_set"):
                continue
            target = amcl
            for part in name.split("."):
                target = getattr(target, part)
        proofs = re.findall(r"`([^`]+)`", proofs)
        assert proofs, f"{equation}: no test"
        assert set(proofs) <= tests, f"{equation}: {set(proofs) - tests}"


@pytest.mark.parametrize(
    "number",
    [
        f"({x})"
        for x in ["3", "4", "5", "8", "9", "1.1", "1.2", "1.3", "1.4", "2.1", "2.2", "2.3", "2.4"]
    ]
    + ["(6), (7)"],
)
def test_no_equation_of_the_paper_is_left_out(number):
    assert any(cells[0].startswith(number) for cells in rows())


def test_every_public_function_has_its_place_in_the_equations():
    text = (ROOT / "docs/equations.md").read_text()
    for name in amcl.functional.__all__:
        if name[0].islower():
            assert f"`functional.{name}`" in text, name
    schemes = [name for name in amcl.temperature.__all__ if name.endswith("Temperature")]
    assert len(schemes) >= 8
    for name in (*schemes, "prior_inside", "range_around"):
        assert name in ("Temperature", "ConstantTemperature") or name in text, name


def public_callables():
    """Functions and classes in `__all__` of every package; a dataclass documents its fields."""
    modules = pkgutil.walk_packages(amcl.__path__, "amcl.")
    names = ["amcl", *(module.name for module in modules if module.ispkg)]
    for package in map(importlib.import_module, names):
        for name in getattr(package, "__all__", ()):
            target = inspect.unwrap(getattr(package, name))
            is_class = inspect.isclass(target) and not issubclass(target, BaseException)
            if inspect.isfunction(target) or (is_class and not is_dataclass(target)):
                yield f"{package.__name__}.{name}", target


def takes_arguments(target):
    """Parameters that are handed on to a base class, as *args, are not documented here."""
    handed_on = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.kind not in handed_on for p in inspect.signature(target).parameters.values())


def test_every_public_callable_is_documented():
    targets = dict(public_callables())
    assert len(targets) >= 100
    missing = []
    for name, target in targets.items():
        text = target.__doc__ or ""
        if ">>>" not in text:
            missing.append(f"an example of {name}")
        if takes_arguments(target) and "Args:" not in text:
            missing.append(f"the arguments of {name}")
    assert not missing, "\n".join(missing)


def test_the_version_is_in_the_changelog():
    assert f"## {amcl.__version__}" in (ROOT / "CHANGELOG.md").read_text()
