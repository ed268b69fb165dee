"""Configuration of the documentation; `make docs` builds it without the network."""

import logging
from importlib.metadata import version as installed_version

project = "dlcca"
author = "the dlcca developers"
copyright = author
version = release = installed_version("dlcca")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
# A part of the documentation may still be without pages; any other warning fails the build.
# Not by suppress_warnings: Sphinx gives this one a subtype but no type, so that cannot name it.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: getattr(record, "subtype", None) != "empty_glob"
)

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
napoleon_google_docstring = False  # our docstrings are in the style of NumPy
autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"dlcca {release}"
