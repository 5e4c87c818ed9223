"""Write the exact files of an installation with their SHA-256: `make lock`.

pip resolves the requirements, under constraints.txt, without installing anything. The lock belongs
to the platform and the Python that it was made with: each line has the hash of one file. Install
from it by

    pip install --require-hashes --requirement build/lock.txt
    pip install --no-deps .
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def resolve(extras: str) -> dict[str, Any]:
    """Return pip's report on what an installation of this folder would install."""
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    project = f"{ROOT}[{extras}]" if extras else str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [
                *(*pip, "--dry-run", "--ignore-installed", "--report", str(report)),
                *("--constraint", str(ROOT / "constraints.txt"), project),
            ],
            check=True,
        )
        return dict(json.loads(report.read_text()))


def lock(report: dict[str, Any]) -> str:
    """Return a requirements file with a hash for each file of a report.

    Addresses are left out: a hash identifies a file wherever it comes from.
    """
    lines = []
    for entry in report["install"]:
        download = entry["download_info"]
        if "dir_info" in download:  # this project
            continue
        name, version = entry["metadata"]["name"], entry["metadata"]["version"]
        sha256 = download.get("archive_info", {}).get("hashes", {}).get("sha256")
        if sha256 is None:
            raise ValueError(f"pip's report has no SHA-256 of {name} {version}: upgrade pip.")
        lines.append(f"{name}=={version} --hash=sha256:{sha256}\n")
    python = platform.python_version()
    header = f"# For Python {python} on {platform.system()} {platform.machine()}, by `make lock`.\n"
    return header + "".join(sorted(lines, key=str.lower))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default="train", help="extras that are part of it, with commas")
    parser.add_argument("--out", type=Path, default=Path("build/lock.txt"))
    options = parser.parse_args()
    text = lock(resolve(options.extras))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text)
    print(f"wrote {options.out}: {text.count('--hash')} files")
