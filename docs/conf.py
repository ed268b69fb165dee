"""Configuration of the documentation; `make docs` builds it without the network, and it needs none to be read."""

import logging
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))  # our own: formulas, tables of settings, figures

project = "dlcca"
author = "the dlcca developers"
copyright = author
version = release = installed_version("dlcca")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "settings_table", "figures"]
exclude_patterns = ["_build"]
# A part of the documentation may still be without pages; any other warning fails the build.
# Not by suppress_warnings: Sphinx gives this one a subtype but no type, so that cannot name it.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: getattr(record, "subtype", None) != "empty_glob"
)

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
napoleon_google_docstring = False  # our docstrings are in the style of NumPy
autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"dlcca {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
