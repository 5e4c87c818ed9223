"""What is declared, what is installed, and what is written down about it."""

import json
import re
import tomllib
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def declared(extra=""):
    """The requirements of the project itself, or of an extra and the extras that it includes."""
    for text in EXTRAS[extra] if extra else PROJECT["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for included in sorted(requirement.extras):
                yield from declared(included)
        else:
            yield requirement


EVERYTHING = [*declared(), *(each for extra in EXTRAS for each in declared(extra))]


@pytest.mark.parametrize("requirement", EVERYTHING, ids=lambda each: each.name)
def test_every_range_has_two_ends(requirement):
    operators = {each.operator for each in requirement.specifier}
    assert operators == {">=", "<"}, f"{requirement} has no lower or no upper bound"


@pytest.mark.parametrize("requirement", [*declared(), *declared("dev")], ids=lambda r: r.name)
def test_what_is_tested_lies_in_the_range(requirement):
    version = distribution(requirement.name).version
    assert requirement.specifier.contains(version), f"{version} is not in {requirement}"


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(r.name): r.specifier for r in requirements}


def test_constraints_pin_what_is_installed(release):
    packages = release("dependencies").installed(f"{PROJECT['name']}[dev]")
    names = {*packages, *(canonicalize_name(r.name) for r in [*declared(), *declared("dev")])}
    names.discard(PROJECT["name"])
    known = pins()
    assert names - set(known) == set()
    for name in names:
        assert re.fullmatch(r"==[^*]+", str(known[name])), f"{name} is not pinned: {known[name]}"
        assert known[name].contains(distribution(name).version), name


def test_constraints_are_within_the_declared_ranges():
    known = pins()
    for requirement in EVERYTHING:
        if (pin := known.get(canonicalize_name(requirement.name))) is not None:
            version = str(pin).removeprefix("==")
            assert requirement.specifier.contains(version), f"{version} is not in {requirement}"


def test_the_lowest_versions_are_those_of_the_ranges(release):
    lines = release("lowest").constraints()
    users = [*declared(), *(each for extra in ("train", "all") for each in declared(extra))]
    found = {canonicalize_name(r.name): r.specifier for r in map(Requirement, lines)}
    assert len(lines) == len(found)
    assert found.keys() == {canonicalize_name(r.name) for r in users}
    for requirement in users:
        version = str(found[canonicalize_name(requirement.name)]).removeprefix("==")
        assert f">={version}" in str(requirement.specifier).split(",")


def test_a_requirement_without_a_lower_end_is_an_error(release):
    with pytest.raises(ValueError, match=r"rich has no lower end: give it one, as in rich>=1\."):
        release("lowest").lowest(["amcl-torch[train]", "rich"])


def test_sizes_count_what_a_dependency_alone_brings(release, monkeypatch):
    script = release("sizes")
    needs = {"a": {"shared", "own"}, "b": {"shared"}, "shared": set(), "own": {"own"}}
    graph = {name: SimpleNamespace(needs=others) for name, others in needs.items()}
    bytes_of = {"a": 1, "b": 10, "shared": 100, "own": 1000}
    monkeypatch.setattr(script, "installed", lambda requirement: graph)
    monkeypatch.setattr(script, "named_by", lambda extra: ["a", "b"] if extra == "train" else [])
    sizes = {id(graph[name]): size for name, size in bytes_of.items()}
    monkeypatch.setattr(script, "size_of", lambda package: sizes[id(package)])
    assert script.sizes("train") == [("a", 1, 1001), ("b", 10, 10)]


def test_sizes_are_of_the_files_that_are_installed(release):
    script = release("sizes")
    assert [name for name, _, _ in script.sizes("")] == ["torch"]
    names = script.named_by("train")
    assert {"numpy", "timm"} <= {*names}
    assert not {"torch", "pyarrow", "pytest"} & {*names}
    files = Path(find_spec("tomli_w").origin).parent.rglob("*.py")
    own = script.size_of(script.installed("tomli-w")["tomli-w"])
    assert 0 < sum(path.stat().st_size for path in files) <= own < 100_000


def test_the_bill_of_materials(release):
    bill = release("sbom").bill_of_materials()
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    ours = bill["metadata"]["component"]
    assert (ours["name"], ours["type"]) == (PROJECT["name"], "application")
    assert ours["licenses"] == [{"expression": "MIT"}]
    components = {each["name"]: each for each in bill["components"]}
    # Direct needs, needs of needs, and nothing of the tools that only developers have.
    needs = [*declared(), *declared("train")]
    assert {canonicalize_name(r.name) for r in needs} <= set(components)
    assert "sqlalchemy" in components
    assert "pytest" not in components
    torch = components["torch"]
    assert torch["version"] == distribution("torch").version
    assert torch["purl"] == torch["bom-ref"] == f"pkg:pypi/torch@{torch['version']}"
    refs = [ours["bom-ref"], *(each["bom-ref"] for each in bill["components"])]
    assert len(set(refs)) == len(refs)
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert sorted(needs) == sorted(refs)
    assert {ref for others in needs.values() for ref in others} <= set(refs)
    assert torch["bom-ref"] in needs[ours["bom-ref"]]
    assert components["sqlalchemy"]["bom-ref"] in needs[components["optuna"]["bom-ref"]]
    json.dumps(bill)


def test_the_bill_of_an_extra(release):
    sbom = release("sbom")
    names = {
        each["name"] for each in sbom.bill_of_materials("amcl-torch[train,onnx]")["components"]
    }
    plain = {each["name"] for each in sbom.bill_of_materials()["components"]}
    assert plain < names
    assert "onnxruntime" in names - plain


def entry(name, **download):
    return {"metadata": {"name": name, "version": "1.2"}, "download_info": download}


def test_a_lock_has_a_hash_for_each_file(release):
    wheel = {"url": "https://registry.example/b.whl", "archive_info": {"hashes": {"sha256": "ab"}}}
    other = {"url": "file:///wheels/a.whl", "archive_info": {"hashes": {"sha256": "cd"}}}
    ours = {"url": "file:///home/me/amcl", "dir_info": {}}
    report = {"install": [entry("b", **wheel), entry("A", **other), entry("amcl-torch", **ours)]}
    header, *lines = release("lock").lock(report).splitlines()
    assert header.startswith("# For Python 3")
    assert lines == ["A==1.2 --hash=sha256:cd", "b==1.2 --hash=sha256:ab"]


def test_a_lock_without_a_hash_is_an_error(release):
    report = {"install": [entry("a", url="https://registry.example/a.whl", archive_info={})]}
    with pytest.raises(ValueError, match=r"no SHA-256 of a 1\.2: upgrade pip"):
        release("lock").lock(report)
