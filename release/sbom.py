"""Write the software bill of materials of an installation, as CycloneDX 1.5 JSON: `make sbom`.

It has name, version, license and package URL of amcl and of each package that amcl needs, and
which of them needs which. Everything is read from the installed packages.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from dependencies import PROJECT, Package, installed


def bill_of_materials(requirement: str = f"{PROJECT}[train]") -> dict[str, Any]:
    """Return the bill of materials of an installed requirement, such as ``amcl-torch[onnx]``."""
    packages = installed(requirement)
    urls = {name: f"pkg:pypi/{name}@{p.distribution.version}" for name, p in packages.items()}

    def component(name: str, kind: str) -> dict[str, Any]:
        package = packages[name]
        return {
            "type": kind,
            "bom-ref": urls[name],
            "name": name,
            "version": package.distribution.version,
            "purl": urls[name],
            **_licenses(package),
        }

    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(PROJECT, "application")},
        "components": [component(name, "library") for name in packages if name != PROJECT],
        "dependencies": [
            {"ref": urls[name], "dependsOn": [urls[other] for other in sorted(p.needs - {name})]}
            for name, p in packages.items()
        ],
    }


def _licenses(package: Package) -> dict[str, Any]:
    """Return the license in a package's metadata: an SPDX expression, else what it calls it."""
    metadata = package.distribution.metadata
    if expression := metadata.get("License-Expression"):
        return {"licenses": [{"expression": expression}]}
    prefix = "License :: "
    names = [c.split(" :: ")[-1] for c in metadata.get_all("Classifier") or () if prefix in c]
    text = (metadata.get("License") or "").strip()
    if not names and text and "\n" not in text:  # some put the whole text there
        names = [text]
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default="train", help="extras that are part of it, with commas")
    parser.add_argument("--out", type=Path, default=Path("build/sbom.json"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    bill = bill_of_materials(f"{PROJECT}[{options.extras}]")
    options.out.write_text(json.dumps(bill, indent=1) + "\n")
    print(f"wrote {options.out}: {len(bill['components'])} packages")
