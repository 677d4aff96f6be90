"""Sphinx configuration. A build first writes the pages of ops and differences from the table, and runs the guides."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import change_pages

import torchnp
from torchnp.lookup import json_export

(Path(__file__).parent / "changes.json").write_text(change_pages.data())  # before Sphinx looks for the files below

project = "torchnp"
author = "the torchnp developers"
copyright = "2026, the torchnp developers"
version = release = torchnp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "start.md"]  # start.md is a part of index.md
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # the docstrings give the types
autodoc_preserve_defaults = True  # as they are written in the code, without values from the machine that builds
autodoc_member_order = "bysource"
default_role = "code"
# With TORCHNP_INTERSPHINX=1, the inventories of other libraries are fetched, and types in docstrings become links. A
# build must not need a network, so all other links are written as addresses.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
} if os.environ.get("TORCHNP_INTERSPHINX") else {}  # fmt: skip
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("search.js", {"defer": "defer"})]
html_theme = "pydata_sphinx_theme"
html_title = "torchnp"
html_theme_options = {
    "show_nav_level": 1,
    "navigation_depth": 2,
    "header_links_before_dropdown": 3,  # as many as fit in one line
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
}
html_sidebars = {"**": []}  # the header links every chapter; sidebar.py adds the links that belong to a page
templates_path = ["_templates"]
html_copy_source = False
html_extra_path = [*map(str, json_export.files()), "changes.json"]  # the reference as data, at the site's root


def setup(app):
    import guides_in_build
    import op_pages
    import search_index
    import sidebar

    app.connect("builder-inited", guides_in_build.begin, priority=400)  # first: it runs in parallel
    app.connect("builder-inited", lambda app: op_pages.write(Path(app.srcdir)))
    app.connect("doctree-read", guides_in_build.overlooked)
    app.connect("html-page-context", sidebar.add, priority=400)  # before the theme's, which leaves empty sidebars out
    app.connect("build-finished", search_index.publish)
    app.connect("build-finished", guides_in_build.end, priority=600)
