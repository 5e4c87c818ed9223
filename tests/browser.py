"""Pages in a real browser, without a window: what is on them, and what the console says."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
needs_browser = pytest.mark.skipif(
    BROWSER is None,
    reason=f"none of {', '.join(NAMES)} is on the PATH: no page was looked at in a browser",
)

# The page within a frame of the width that is asked for, which a window cannot always have.
FRAME = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe style="border:0;width:{width}px;height:800px" srcdoc="{page}"></iframe><pre></pre>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", async () => {{
  const [page, document_] = [frame.contentWindow, frame.contentDocument];
  const found = await (async (window, document) => {{ {script} }})(page, document_);
  const dom = document_.documentElement.outerHTML;
  document.querySelector("pre").textContent = JSON.stringify({{found, dom}});
  frame.remove();
}});
</script></body>"""


# Uses a page: changes its colors, then goes over its first map by pointer and by keys.
IN_USE = """
const at = (selector) => document.querySelector(selector);
const wait = () => new Promise((done) => window.setTimeout(done, 50));
const found = {};
const root = document.documentElement;
found.ground = [window.getComputedStyle(document.body).backgroundColor];
found.theme = [at("#theme").textContent];
at("#theme").click();
found.ground.push(window.getComputedStyle(document.body).backgroundColor);
found.theme.push(at("#theme").textContent);
found.sideways = root.scrollWidth - root.clientWidth;
const [frame, tip] = [at(".frame"), at(".tip")];
const use = document.querySelectorAll(".points use")[1];
const box = use.getBoundingClientRect();
const place = {clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true};
found.hidden = [tip.hidden];
frame.dispatchEvent(new window.PointerEvent("pointermove", place));
found.hidden.push(tip.hidden);
found.tip = [tip.textContent, at(".thumb").style.backgroundPosition];
found.bright = [...document.querySelectorAll(".points use")].map((one) => one.matches(".dim .on"));
frame.dispatchEvent(new window.PointerEvent("pointerleave"));
found.hidden.push(tip.hidden);
frame.focus();
await wait();
found.hidden.push(tip.hidden);
const before = at(".spoken").textContent;
frame.dispatchEvent(new window.KeyboardEvent("keydown", {key: "ArrowLeft"}));
frame.dispatchEvent(new window.KeyboardEvent("keydown", {key: "ArrowLeft"}));
found.spoken = [before, at(".spoken").textContent];
frame.blur();
await wait();
found.hidden.push(tip.hidden);
found.images = [...document.images].every((image) => image.complete && image.naturalWidth > 0);
return found;
"""


@dataclass(frozen=True)
class Seen:
    """A page after its scripts have run; `found` is what the test's own script gave back."""

    dom: str
    console: list[str]
    found: Any = None

    @property
    def text(self) -> str:
        """The words on the page, without marks."""
        words = re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", self.dom, flags=re.S)
        return " ".join(html.unescape(words).split())


def open_page(path: Path, dark: bool = False) -> Seen:
    """The page as a reader opens it."""
    done = _run("--dump-dom", dark=dark, address=path.absolute().as_uri())
    return Seen(done.stdout, _console(done))


def try_page(path: Path, script: str, width: int = 1200, dark: bool = False) -> Seen:
    """The page in a frame so many pixels wide; `script` sees its window and document."""
    page = html.escape(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(FRAME.format(page=page, width=width, script=script), encoding="utf-8")
        done = _run("--dump-dom", dark=dark, address=frame.as_uri())
    result = re.search(r"<pre>(.+)</pre>", done.stdout, flags=re.S)
    assert result, f"the script did not end: {_console(done)}"
    seen = json.loads(html.unescape(result[1]))
    return Seen(seen["dom"], _console(done), seen.get("found"))


def screenshot(path: Path, to: Path, width: int = 1200, height: int = 3000, dark: bool = False):
    """A picture of the page."""
    size = (f"--screenshot={to}", f"--window-size={width},{height}", "--hide-scrollbars")
    _run(*size, dark=dark, address=path.absolute().as_uri())


def print_pdf(path: Path, to: Path) -> None:
    """The page on paper."""
    _run(f"--print-to-pdf={to}", "--no-pdf-header-footer", address=path.absolute().as_uri())


def _run(*options: str, address: str, dark: bool = False) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            *(BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"),
            f"--user-data-dir={profile}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            *("--virtual-time-budget=5000", *options, address),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def _console(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What scripts and the browser itself have to say of the page: errors, blocked requests."""
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
