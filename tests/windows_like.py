"""What Windows lacks is taken away from this process, and from those that it spawns.

python windows_like.py FOLDER: import all of amcl, train with a process that decodes, resume, sweep
with two processes. Paths, terminals and files that cannot be replaced while they are
open are as on this system.
"""

import os
import signal
import sys

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
MISSING_SIGNALS = "SIGHUP SIGXCPU SIGUSR1 SIGUSR2 SIGCHLD SIGALRM SIGPIPE SIGQUIT"
for name in (*MISSING_SIGNALS.split(), "pthread_sigmask", "setitimer", "alarm", "pause"):
    delattr(signal, name)
MISSING = "setsid setpgrp setpgid getpgid killpg getuid geteuid getgid pread preadv mkfifo nice"
for name in (*MISSING.split(), "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"):
    delattr(os, name)
_open, _rename = os.open, os.rename


def open_file(path, flags, mode=0o777, **options):
    """Open a file; folders cannot be opened."""
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return _open(path, flags, mode, **options)


def rename(source, target, **options):
    """Rename a file or folder; nothing is replaced."""
    if os.path.lexists(target):
        raise FileExistsError(17, "File exists", str(source), None, str(target))
    _rename(source, target, **options)


os.open, os.rename = open_file, rename

import importlib  # noqa: E402
import multiprocessing  # noqa: E402
import pkgutil  # noqa: E402
from dataclasses import replace  # noqa: E402
from pathlib import Path  # noqa: E402
from types import ModuleType  # noqa: E402

import torch.utils.data._utils.signal_handling as torch_signals  # noqa: E402

torch_signals.IS_WINDOWS = True

import amcl  # noqa: E402
import amcl.files  # noqa: E402
import amcl.sweep.workers  # noqa: E402
import amcl.training.hardware  # noqa: E402


class Windows(ModuleType):
    """The module `sys` of Windows."""

    platform = "win32"

    def __getattr__(self, name):
        return getattr(sys, name)


for module in (amcl.files, amcl.sweep.workers, amcl.training.hardware):
    module.sys = Windows("sys")


def import_all() -> int:
    """Import every module of amcl, and return their number."""
    modules = [found.name for found in pkgutil.walk_packages(amcl.__path__, "amcl.")]
    for name in modules:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    return len(modules)


def main(folder: Path) -> None:
    from amcl.checkpoints import RunFolder
    from amcl.errors import RunError
    from amcl.sweep import grid, sweep
    from amcl.training import pretrain
    from tiny_runs import picture_folder, tiny_vit

    assert import_all() > 300
    multiprocessing.set_start_method("spawn")
    picture_folder(folder / "pictures")
    config = tiny_vit("simclr", folder / "pictures")
    decoded = replace(config, data=replace(config.data, workers=1, memory=0.0))
    pretrain(decoded, folder / "run")
    locked = RunFolder(folder / "run")
    locked.open(10)
    longer = replace(decoded, run=replace(config.run, epochs=3))
    try:
        pretrain(longer, folder / "run", resume=True)
    except RunError as error:
        print(error)
    locked.close()
    pretrain(longer, folder / "run", resume=True)
    records = sweep(grid(config, {"seed": ["0", "1"]}), folder / "sweep", jobs=2)
    print([record.status for record in records])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
