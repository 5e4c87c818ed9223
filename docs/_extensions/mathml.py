"""Equations as MathML, which browsers show without a script."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util.docutils import SphinxTranslator


def inline(writer: SphinxTranslator, node) -> None:
    """Write an equation within a line."""
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def block(writer: SphinxTranslator, node) -> None:
    """Write an equation in a line of its own."""
    writer.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


def setup(app) -> dict[str, bool]:
    """Add the renderer."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline, None), block_renderers=(block, None)
    )
    return {"parallel_read_safe": True}
