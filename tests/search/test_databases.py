"""Studies that machines share through PostgreSQL or a journal, and the death of one machine."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import optuna
import pytest

from amcl.errors import RunError
from amcl.sweep import storage
from amcl.sweep.journal import Journal
from postgres import MISSING, postgres
from search.machines_worker import TRIALS
from search.studies import find, numbers


@pytest.fixture(scope="module")
def database():
    """The address of a PostgreSQL database; None where it is not installed."""
    with postgres() as address:
        yield address


@pytest.fixture(scope="module")
def shared(tmp_path_factory, database):
    """A folder with a study in a journal, 0, and one in PostgreSQL, 1, and all that was printed."""
    folder = tmp_path_factory.mktemp("machines")
    journal = str(folder / "ours.journal")
    return folder, machines(folder, journal, *([] if database is None else [database]))


def machines(folder: Path, *addresses: str) -> str:
    """Have two machines share a study in each storage, and return all that they printed."""
    worker = Path(__file__).with_name("machines_worker.py")
    tests = str(worker.parents[1])
    done = subprocess.run(
        [sys.executable, str(worker), str(folder), *addresses],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.split() == ["-9", "0"] * len(addresses), done.stdout + done.stderr
    return done.stdout + done.stderr


def check_shared(folder: Path) -> None:
    """The other machine has done all trials that the killed one had not ended."""
    other = json.loads((folder / "other.json").read_text())
    expected = [f"{number:04d}" for number in range(TRIALS)]
    assert other["records"] == [[name, "complete"] for name in expected]
    assert sorted(other["complete"]) == expected  # exactly as many as were wanted
    begun = {path.name for path in (folder / "killed/trials").iterdir()}
    assert len(begun) == 1  # of the second there is nothing yet
    assert begun.isdisjoint(other["begun"])
    assert begun | set(other["begun"]) == set(expected)
    assert len(other["died"]) == 1
    assert set(other["died"]) <= set(other["begun"])  # it was done again


def test_of_two_machines_one_dies_and_the_other_finishes_in_a_journal(shared):
    folder, _ = shared
    check_shared(folder / "0")
    assert [*(folder / "ours.journal.heartbeats").iterdir()] == []


def test_of_two_machines_one_dies_and_the_other_finishes_in_postgres(shared, database):
    if database is None:
        pytest.skip(MISSING)
    folder, printed = shared
    check_shared(folder / "1")
    password = re.search(r"//amcl:(.+)@127", database)[1]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(b"postgresql://amcl:***@127.0.0.1" in path.read_bytes() for path in files)
    for secret in (password, unquote(password)):
        assert secret not in printed
        assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_password_that_postgres_refuses_is_not_shown(tmp_path, runs, database):
    if database is None:
        pytest.skip(MISSING)
    with pytest.raises(RunError, match=r"\(postgresql\) cannot be used: .*failed") as error:
        find(tmp_path / "s", storage=database.replace("amcl:", "amcl:wrong-"), study="refused")
    assert "wrong" not in str(error.value)
    assert not (tmp_path / "s").exists()


def test_a_password_may_come_from_a_file_of_postgres(tmp_path, runs, database, monkeypatch):
    if database is None:
        pytest.skip(MISSING)
    password, address = re.search(r"amcl:(.+)@(.+)", database).groups()
    (tmp_path / "pgpass").write_text(f"*:*:*:amcl:{unquote(password)}\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    without = f"postgresql://amcl@{address}"
    assert numbers(find(tmp_path / "s", trials=1, storage=without, study="file").records) == [0]
    assert numbers(find(tmp_path / "s", trials=2).records) == [0, 1]  # nothing need be given again


def test_postgres_without_its_driver_names_the_extra(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(storage, "missing", lambda *names: list(names))
    with pytest.raises(RunError, match=r"needs psycopg.*'\.\[postgres\]'"):
        find(tmp_path / "s", storage="postgresql://me:secret@127.0.0.1/studies")


def test_a_journal_by_a_relative_path_is_found_again_from_anywhere(tmp_path, runs, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    find(tmp_path / "s", trials=1, storage="ours.journal", study="ours")
    monkeypatch.chdir(tmp_path)
    assert numbers(find(tmp_path / "s", trials=2).records) == [0, 1]
    assert numbers(
        find(tmp_path / "t", trials=3, storage="here/ours.journal", study="ours").records
    )
    (tmp_path / "here/ours.journal").unlink()
    with pytest.raises(RunError, match=r"ours\.journal is gone"):
        find(tmp_path / "s", trials=2)


def test_a_journal_in_no_folder_is_an_error(tmp_path, runs):
    with pytest.raises(FileNotFoundError, match=r"no/such/ours\.journal"):
        find(tmp_path / "s", trials=1, storage=str(tmp_path / "no/such/ours.journal"))


def test_half_a_line_at_the_end_of_a_journal_is_dropped(tmp_path, runs):
    """A power cut leaves it, and the next line would be appended to it."""
    path = tmp_path / "ours.journal"
    find(tmp_path / "s", trials=1, storage=str(path))
    with path.open("ab") as file:
        file.write(b'{"op_code":6,"worker')
    assert numbers(find(tmp_path / "s", trials=2).records) == [0, 1]


def test_a_trial_without_signs_of_life_is_stale(tmp_path):
    journal = Journal(tmp_path / "ours.journal", interval=1, grace=10)
    study = optuna.create_study(storage=journal)
    with pytest.warns(UserWarning, match="Heartbeat"):
        trials = [study.ask() for _ in range(3)]
    for trial in trials[:2]:
        journal.record_heartbeat(trial._trial_id)
    assert journal._get_stale_trial_ids(study._study_id) == []
    first = tmp_path / "ours.journal.heartbeats" / str(trials[0]._trial_id)
    past = first.stat().st_mtime - 11
    os.utime(first, (past, past))
    assert journal._get_stale_trial_ids(study._study_id) == [trials[0]._trial_id]
    study.tell(trials[0], state=optuna.trial.TrialState.FAIL)
    assert journal._get_stale_trial_ids(study._study_id) == []
    assert not first.exists()
