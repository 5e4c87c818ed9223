"""Files that are whole or not there."""

import errno
import os
import secrets
import subprocess
import sys

import pytest

from amcl import files
from amcl.files import is_free, remove_unfinished, temporary_folder, whole_file, write_text
from amcl.locks import try_lock


def test_a_file_takes_its_name_at_the_end(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with whole_file(path) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        raise KeyboardInterrupt
    assert [each.name for each in path.parent.iterdir()] == ["file.txt"]


def test_errors_have_the_name_that_was_asked_for(tmp_path):
    path = tmp_path / "file.txt"
    with pytest.raises(OSError, match="No space left") as told, whole_file(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert told.value.filename == str(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as told:
        write_text(tmp_path / "folder", "text")
    assert told.value.filename == str(tmp_path / "folder")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_names_of_unfinished_files_cannot_be_guessed(tmp_path):
    names = set()
    for _ in range(3):
        with whole_file(tmp_path / "file.txt") as file:
            names.add(file.name)
        with temporary_folder(tmp_path / "folder") as folder:
            names.add(folder.name)
    assert len(names) == 6
    assert not any(str(os.getpid()) in name.split(".") for name in names)


def test_a_link_under_the_name_of_an_unfinished_file_is_not_followed(tmp_path, monkeypatch):
    """Though the name was guessed, and the link made after leftovers were removed."""
    victim = tmp_path / "thesis.txt"
    victim.write_text("thesis")
    monkeypatch.setattr(secrets, "randbits", lambda bits: 7)
    monkeypatch.setattr(files, "remove_unfinished", lambda *args: None)
    (tmp_path / ".file.txt.7.writing").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "file.txt", "text")
    assert victim.read_text() == "thesis"
    assert (tmp_path / ".file.txt.7.writing").is_symlink()
    assert not (tmp_path / "file.txt").exists()


def test_leftovers_that_are_no_files_are_removed_and_not_opened(tmp_path):
    victim, folder = tmp_path / "thesis.txt", tmp_path / "folder"
    victim.write_text("thesis")
    (folder / "sub").mkdir(parents=True)
    (tmp_path / ".file.txt.1.writing").symlink_to(victim)
    (tmp_path / ".file.txt.2.writing").symlink_to(folder)
    (tmp_path / ".file.txt.3.writing").symlink_to("nowhere")
    os.mkfifo(tmp_path / ".file.txt.4.writing")  # to open it would wait for a writer
    remove_unfinished(tmp_path)
    write_text(tmp_path / "file.txt", "text")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file.txt", "folder", "thesis.txt"]
    assert victim.read_text() == "thesis"
    assert (folder / "sub").is_dir()


WRITING = """
import sys
from pathlib import Path
from amcl.files import temporary_folder, whole_file
with whole_file(Path("file.txt")) as file, temporary_folder(Path("folder")) as folder:
    (folder / "inner").write_text("half")
    print("now", flush=True)
    sys.stdin.read()
"""


def unfinished(folder):
    return sorted(path.suffix for path in folder.iterdir())


def test_what_a_process_writes_is_left_to_it_until_it_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITING],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout.readline() == b"now\n"
            remove_unfinished(tmp_path)
            assert unfinished(tmp_path) == [".lock", ".lock", ".writing", ".writing"]
        finally:
            process.kill()
    assert is_free(tmp_path)
    remove_unfinished(tmp_path)
    assert unfinished(tmp_path) == []


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    victim, folder = tmp_path / "thesis.txt", tmp_path / "folder"
    victim.write_text("thesis")
    (folder / "sub").mkdir(parents=True)
    for number, target in enumerate((victim, folder, tmp_path / "nowhere")):
        (tmp_path / f".file.txt.{number}.writing").write_text("half")
        (tmp_path / f".file.txt.{number}.writing.lock").symlink_to(target)
    (tmp_path / ".file.txt.3.writing.lock").mkdir()
    remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "thesis.txt"]
    assert victim.read_text() == "thesis"
    assert (folder / "sub").is_dir()
    (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        try_lock(tmp_path / "lock")


def test_without_locks_files_are_written_and_nothing_is_removed(tmp_path, monkeypatch):
    """Some file systems have none: nobody can tell what a killed process has left there."""
    monkeypatch.setattr(files, "try_lock", lambda path: None)
    (tmp_path / ".file.txt.1.writing").write_text("half")
    write_text(tmp_path / "file.txt", "text")
    assert (tmp_path / "file.txt").read_text() == "text"
    assert (tmp_path / ".file.txt.1.writing").exists()
