"""Formulas as MathML, which browsers draw themselves: a page needs no script and no network for them."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (in_line, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def in_line(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def displayed(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math notranslate"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(tex2mathml(_in_environment(node.astext()), as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def _in_environment(tex: str) -> str:
    """TeX in the environment that its line breaks and signs of alignment ask for."""
    environment = pick_math_environment(tex)
    if tex.startswith("\\begin") or environment == "equation*":
        return tex
    return rf"\begin{{{environment}}}{tex}\end{{{environment}}}"
