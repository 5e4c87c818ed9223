"""Two hosts on one machine: network namespaces with addresses and names of their own.

Nothing leaves them: each has its loopback and one cable to the other. Their folders are the same,
as those of machines with a shared file system are.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

INTERFACE = "eth0"
FIRST = "10.77.0.1"
_ADDRESSES = {"node-a": FIRST, "node-b": "10.77.0.2"}
_UNSHARE = "unshare --uts --mount --pid --fork --kill-child --mount-proc"
# Names come from the file of hosts alone: there is no server of names to wait for.
_ENTER = """set -e
echo "$1" > /proc/sys/kernel/hostname
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/nsswitch.conf" /etc/nsswitch.conf
shift 2
exec "$@"
"""


@dataclass(frozen=True)
class Host:
    """A host: its name and its namespace."""

    name: str
    namespace: str
    folder: Path

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """Return a command that runs words on this host; to kill it kills all that they started."""
        enter = shlex.split(f"ip netns exec {self.namespace} {_UNSHARE} sh -c")
        return [*enter, _ENTER, "sh", self.name, str(self.folder), *map(str, words)]

    def connect(self, connected: bool) -> None:
        """Plug the cable in, or pull it."""
        _ip("-n", self.namespace, "link", "set", INTERFACE, "up" if connected else "down")


@contextmanager
def two_hosts(folder: Path) -> Iterator[tuple[Host, Host] | str]:
    """Two hosts for the time of a test, or the reason why there can be none."""
    if os.geteuid() != 0:
        yield "network namespaces are for root"
        return
    if missing := [name for name in ("ip", "unshare", "mount") if shutil.which(name) is None]:
        yield f"{' and '.join(missing)} missing (apt-get install iproute2 util-linux mount)"
        return
    lines = [f"{address} {name}" for name, address in _ADDRESSES.items()]
    (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
    (folder / "nsswitch.conf").write_text("hosts: files\n")
    a, b = (Host(name, f"amcl-{os.getpid()}-{name}", folder) for name in _ADDRESSES)
    try:
        try:
            for host in (a, b):
                _ip("netns", "add", host.namespace)
            cable = f"link add {INTERFACE} netns {a.namespace} type veth peer name {INTERFACE}"
            _ip(*cable.split(), "netns", b.namespace)
            for host in (a, b):
                address = f"{_ADDRESSES[host.name]}/24"
                _ip("-n", host.namespace, "address", "add", address, "dev", INTERFACE)
                _ip("-n", host.namespace, "link", "set", "lo", "up")
                host.connect(True)
                subprocess.run(host.command(["true"]), check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip().splitlines() or ["no reason was given"])[-1]
            yield f"this machine allows no network namespaces: {reason}"
            return
        yield a, b
    finally:
        for host in (a, b):
            subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
