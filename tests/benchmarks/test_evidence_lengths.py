"""The gain of AMCL by length is over the constant temperature that validation images prefer."""

import json

import pytest

from benchmark_scripts import load_script


@pytest.fixture
def by_name(tmp_path, monkeypatch):
    """Studies of two methods in a folder: one has a temperature to choose, the other recipes."""
    load_script(monkeypatch, "evidence")  # puts its folder on the path
    import evidence_studies

    monkeypatch.setattr(evidence_studies, "FOLDER", tmp_path)
    studies = {}

    def write(name, rows):
        studies[name] = evidence_studies.Study(
            name=name, about="", options="--x", protocol="--y", grid=["seed=0"]
        )
        runs = [
            {
                "values": values,
                "ending": "complete",
                "metrics": {
                    "knn_validation": validation,
                    "knn_top1_test": test,
                    "linear_top1_test": test,
                    "effective_rank": 70.0,
                },
                "last": {"head_agreement": 0.5, "s_positive": 0.25},
            }
            for values, validation, test in rows
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"command": "", "runs": runs}))

    def constant(tau, seed, epochs="6"):
        return {"epochs": epochs, "tau": tau, "seed": seed}

    write(
        "length-simclr-base",
        [
            (constant("0.1", "0"), 0.40, 0.50),
            (constant("0.2", "0"), 0.41, 0.44),
            (constant("0.2", "1"), 0.20, 0.46),
            (constant("0.1", "0", "23"), 0.50, 0.60),
        ],
    )
    ours = [({"epochs": "6", "seed": seed}, 0.42, 0.47) for seed in "01"]
    write("length-simclr", ours)
    recipes = [
        ({"recipe": f"x{form}", "epochs": "6", "seed": "0"}, 0.3, test)
        for form, test in (("", 0.3), ("-amcl", 0.31))
    ]
    write("length-simsiam", recipes)
    return studies


def test_validation_images_choose_the_temperature_by_the_seeds_that_all_have(by_name):
    import evidence_lengths

    (simclr,) = evidence_lengths.lengths(by_name, "simclr")  # AMCL has no runs of 23 epochs
    assert (simclr.tau, simclr.steps) == ("0.2", 6 * 351)
    gain = simclr.gain("knn_top1_test").by_seed
    assert gain == {0: pytest.approx(0.03), 1: pytest.approx(0.01)}


def test_a_recipe_that_ends_in_amcl_is_the_side_with_amcl(by_name):
    import evidence_lengths

    (simsiam,) = evidence_lengths.lengths(by_name, "simsiam")
    assert simsiam.tau == "–"
    assert simsiam.gain("knn_top1_test").mean == pytest.approx(0.01)
    assert evidence_lengths.lengths(by_name, "moco") == []


def test_tables_have_a_row_for_each_method_and_length(by_name):
    import evidence_lengths

    gains = evidence_lengths.gains(by_name).splitlines()
    assert gains[2].startswith(
        "| SimCLR | 2,106 | 2 | 0.2 | 45.0 ± 1.4 | 47.0 ± 0.0 | +2.0 ± 1.4 |"
    )
    assert gains[3].startswith("| SimSiam | 2,106 | 1 | – | 30.0 | 31.0 | +1.0 |")
    reasons = evidence_lengths.reasons(by_name).splitlines()
    assert reasons[2] == "| SimCLR | 2,106 | 0.50 | – | – | 0.25 | 0.25 | 70.0 | 70.0 |"
