"""Files that are whole or not there."""

import errno

import pytest

from amcl.files import whole_file, write_text


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
