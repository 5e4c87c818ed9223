"""HTML from the templates: one self-contained file that asks nothing of anyone."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from amcl.report.glossary import EXPLANATIONS
from amcl.report.maps import HEIGHT, WIDTH, draw_map
from amcl.report.pictures import LOSSLESS, data_uri, shown_width

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

GENERATOR = "amcl report"
"""Name of the generator in the metadata of pages."""
_UNBROKEN = 24  # letters up to which a word of a command is not broken at a hyphen


def render(
    template: str,
    page: object,
    *,
    styles: Sequence[str] = ("page.css",),
    scripts: Sequence[str],
    **values: Any,
) -> str:
    """Return a page as text.

    Args:
        template: A template that extends base.html.
        page: Title, subtitle, facts, sections with titles and anchors, and footer.
        styles: Files of styles.
        scripts: Files of scripts, which run in this order.
        values: Other values that the template uses.
    """
    from markupsafe import Markup

    environment = _environment()
    script = "\n".join(_resource(environment, name) for name in scripts)
    return environment.get_template(template).render(
        page=page,
        generator=f"{GENERATOR} {version('amcl-torch')}",
        style=Markup("\n".join(_resource(environment, name) for name in styles)),
        script=Markup(script),
        sum_of_script=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **values,
    )


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("amcl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"uri": data_uri, "shown_width": shown_width, "draw_map": draw_map}
    environment.filters["inline"] = _inline
    environment.globals |= {"MAP_WIDTH": WIDTH, "MAP_HEIGHT": HEIGHT}
    environment.globals |= {"LOSSLESS": LOSSLESS, "EXPLANATIONS": EXPLANATIONS}
    return environment


def _inline(text: str) -> "Markup":
    """Return text in which words between backticks are commands."""
    from markupsafe import Markup, escape

    def command(match: re.Match[str]) -> str:
        words = (f"<span>{w}</span>" if len(w) <= _UNBROKEN else w for w in match[1].split(" "))
        return f"<code>{' '.join(words)}</code>"

    return Markup(re.sub("`([^`]+)`", command, str(escape(text))))


def _resource(environment: "Environment", name: str) -> str:
    """Return the text of a file beside the templates."""
    if environment.loader is None:
        raise RuntimeError("the environment has a loader")
    text, _, _ = environment.loader.get_source(environment, name)
    return text
