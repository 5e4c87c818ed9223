"""Random command lines: each ends with an exit code and one line, and nothing is written."""

import random

import pytest

from amcl.cli import COMMANDS, main
from amcl.cli.known_options import KNOWN

VALUES = [
    *("", "0", "-1", "1", "3", "1e9", "-1e-9", "nan", "inf", "1e400", "0x10", "1_000", "½", "true"),
    *("none", "None", "[]", "{}", "a,b", "a=b", "a:b:c", "/dev/null", "/", "..", "~nobody/x", "*"),
    *("\x00", "\x1b[31m", "\n", "é", "caf\udce9", "x" * 10_000, "--help", "--", "-", "%s", "{0}"),
]
ODD = ["", "-", "--", "--=", "-x", "--no-such-option", "\x00", "\x1b[31m", "caf\udce9", "@file"]


def options(command: str) -> list[str]:
    """The options of a command."""
    file = KNOWN / f"{'simclr' if command == 'pretrain' else command}.txt"
    return file.read_text().split() if file.exists() else []


def line(choice: random.Random, missing: str) -> list[str]:
    """A command with some of its options, and values that do not fit."""
    command = choice.choice([name for name in COMMANDS if name != "demo"])
    words = [command]
    for _ in range(choice.randint(0, 4)):
        if choice.random() < 0.8:
            words.append(choice.choice(options(command) or ODD))
        else:
            words.append(choice.choice(ODD))
        words += [choice.choice(VALUES) for _ in range(choice.randint(0, 2))]
    # Nothing is trained: where the images are, there is nothing.
    return [*words, *(["--data", missing] if "--data" in options(command) else [])]


@pytest.mark.parametrize(
    ("start", "count"), [(0, 40), pytest.param(40, 600, marks=pytest.mark.slow)]
)
def test_command_lines(start, count, tmp_path, monkeypatch, capfd, record):
    monkeypatch.chdir(tmp_path)
    for seed in range(start, start + count):
        words = line(random.Random(seed), str(tmp_path / "missing"))
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code or 0
        output = capfd.readouterr()
        assert code in (0, 1, 2), (words, output.err)
        assert "Traceback" not in output.err, words
        assert "\x1b[31m" not in output.out + output.err, words
        assert code == 0 or output.err.strip(), words
    assert list(tmp_path.iterdir()) == []
    record("random command lines", count)


def test_words_that_a_terminal_acts_on_are_escaped(capfd):
    assert main(["data", "cifar10", "\x1b[31m"]) == 2
    output = capfd.readouterr()
    assert "\\x1b[31m" in output.err
    assert "\x1b" not in output.err + output.out
