"""`amcl completion`: completion of commands and options in a shell.

The scripts are made from the lists of commands and options, so that completing a word starts no
Python.
"""

import sys

from amcl.cli.known_options import options_of_commands
from amcl.printable import printable

SHELLS = ("bash", "zsh", "fish")
USAGE = """usage: amcl completion bash|zsh|fish

Write a script that completes commands, options and file names of amcl.

Examples:
  # Use it in this bash.
  source <(amcl completion bash)
  # Keep it for every new bash.
  amcl completion bash > ~/.local/share/bash-completion/completions/amcl
  # Keep it for zsh, in a folder of $fpath.
  amcl completion zsh > ~/.zfunc/_amcl
  # Keep it for fish.
  amcl completion fish > ~/.config/fish/completions/amcl.fish"""

_BASH = """_amcl() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" choices
    if [ "$COMP_CWORD" -eq 1 ]; then
        choices="{commands}"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    fi
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || [[ "$word" == -* ]]; then
        COMPREPLY=($(compgen -W "$choices" -- "$word"))
    fi
}}
complete -o default -F _amcl amcl
"""
_ZSH = """#compdef amcl
_amcl() {{
    local -a choices
    if (( CURRENT == 2 )); then
        choices=({commands})
        _describe command choices
        return
    fi
    case "${{words[2]}}" in
{cases}
    esac
    if [[ "${{words[CURRENT]}}" == -* ]]; then
        compadd -- "${{choices[@]}}"
    else
        _files
    fi
}}
if [ "$funcstack[1]" = "_amcl" ]; then
    _amcl "$@"
else
    compdef _amcl amcl
fi
"""


def main(args: list[str]) -> int:
    """Run the command and return the exit code."""
    if args in (["-h"], ["--help"], ["--help-all"]):
        print(USAGE)
        return 0
    if len(args) != 1 or args[0] not in SHELLS:
        given = printable(" ".join(args)) or "nothing"
        print(
            f"amcl completion: name a shell, {', '.join(SHELLS)}; {given} was given.",
            file=sys.stderr,
        )
        return 2
    print(script(args[0]), end="")
    return 0


def script(shell: str) -> str:
    """Return the script for a shell.

    Args:
        shell: One of `SHELLS`.
    """
    from amcl.cli import COMMANDS

    options = options_of_commands(COMMANDS)
    if shell == "bash":
        cases = [f'            {name}) choices="{" ".join(o)}" ;;' for name, o in options.items()]
        return _BASH.format(commands=" ".join(COMMANDS), cases="\n".join(cases))
    if shell == "zsh":
        commands = " ".join(f'"{name}:{about}"' for name, about in COMMANDS.items())
        cases = [f"        {name}) choices=({' '.join(o)}) ;;" for name, o in options.items()]
        return _ZSH.format(commands=commands, cases="\n".join(cases))
    lines = [
        f"complete -c amcl -n __fish_use_subcommand -f -a {name} -d '{about}'"
        for name, about in ((n, a.replace("'", "\\'")) for n, a in COMMANDS.items())
    ]
    for name, names in options.items():
        lines += [
            f"complete -c amcl -n '__fish_seen_subcommand_from {name}' -l {o.removeprefix('--')}"
            for o in names
        ]
    return "\n".join(lines) + "\n"
