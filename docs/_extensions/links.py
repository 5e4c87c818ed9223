"""Links between pages that work both in a checkout and on the site."""

import re
from pathlib import Path, PurePosixPath

# Pages of the site that are files of the checkout.
_PAGES = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "security": "SECURITY.md"}
_LINK = re.compile(r"(!?\[[^\]]*\])\(((?!https?:|mailto:|#)[^)\s]+)\)")


def read_page(app, name: str, source: list[str]) -> None:
    """Read a page; links to files outside of the documentation become downloads."""
    docs = Path(app.srcdir)
    at = PurePosixPath("docs") / f"{name}.md"
    if name in _PAGES:
        at = PurePosixPath(_PAGES[name])
        source[0] = (docs.parent / at).read_text(encoding="utf-8")
    text = source[0]
    source[0] = _LINK.sub(lambda match: _rewritten(match, at.parent, name, docs.parent), text)


def _rewritten(match: re.Match[str], folder: PurePosixPath, page: str, root: Path) -> str:
    label, target = match.groups()
    path, hash_, anchor = target.partition("#")
    file = _joined(folder, path)
    pages = {path: name for name, path in _PAGES.items()}
    if file in pages:
        return f"{label}(/{pages[file]}.md{hash_}{anchor})"
    if file.startswith("docs/") or not (root / file).exists():
        return f"{label}(/{file.removeprefix('docs/')}{hash_}{anchor})"
    if (root / file).is_dir():
        return label.strip("[]")
    return f"{label}(path:/{PurePosixPath('..') / file})"


def _joined(folder: PurePosixPath, path: str) -> str:
    parts: list[str] = []
    for part in (folder / path).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def setup(app) -> dict[str, bool]:
    """Connect to the builder."""
    app.connect("source-read", read_page)
    return {"parallel_read_safe": True}
