"""The workflow calls targets that exist, and the forms can be read."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def test_the_workflow_calls_targets_that_exist():
    workflow = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    called = {m for step in steps for m in re.findall(r"make ([a-z-]+)", step.get("run", ""))}
    assert {"check", "test", "test-lowest", "docs"} <= called <= TARGETS
    systems = {each["os"] for each in workflow["jobs"]["test"]["strategy"]["matrix"]["include"]}
    assert {name.partition("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}


@pytest.mark.parametrize("name", ["bug", "question"])
def test_forms_have_a_name_and_fields(name):
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
    assert form["name"]
    assert form["description"]
    assert all(field["attributes"]["label"] for field in form["body"])


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
