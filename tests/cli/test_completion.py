"""Completion of commands and options, in the shells themselves."""

import shutil
import subprocess

import pytest

from amcl.cli import COMMANDS, main
from amcl.cli.completion import SHELLS, script


def completed(line: str) -> set[str]:
    """Return what bash offers for the last word of a line."""
    words = line.split(" ")
    program = (
        f"{script('bash')}\n"
        f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        '_amcl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_options():
    assert completed("amcl ") == set(COMMANDS)
    assert completed("amcl pre") == {"pretrain", "predict"}
    assert {"--epochs", "--queue", "--lam"} <= completed("amcl pretrain --")
    assert completed("amcl embed --out") == {"--out"}
    assert "--queue" not in completed("amcl embed --")
    assert completed("amcl pretrain --data ") == set()  # then bash completes names of files


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_right_for_their_shell(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n"], input=script(shell), text=True, check=True)


def test_fish_gets_each_option_of_each_command():
    lines = script("fish").splitlines()
    assert "complete -c amcl -n '__fish_seen_subcommand_from pretrain' -l epochs" in lines
    assert sum("__fish_use_subcommand" in line for line in lines) == len(COMMANDS)


def test_the_command_names_the_shells(capsys):
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == script("bash")
    assert main(["completion", "tcsh"]) == 2
    assert "name a shell, bash, zsh, fish; tcsh was given" in capsys.readouterr().err
    assert main(["completion", "--help"]) == 0
    assert "usage: amcl completion" in capsys.readouterr().out


def test_words_that_no_terminal_should_act_on_are_escaped(capsys):
    assert main(["completion", "-x", "\x1b[31m"]) == 2
    assert "-x \\x1b[31m was given" in capsys.readouterr().err
