"""Settings of Sphinx for the documentation site; ``python docs/build.py`` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "extensions"))

from repository_pages import sources  # noqa: E402

import calque  # noqa: E402

project = "calque"
author = "the authors of calque"
copyright = "the authors of calque, Apache License 2.0"
release = version = calque.__version__

extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "generated_parts",
    "repository_pages",
    "language_models",
]
exclude_patterns = ["extensions"]

# A page of the site is a page of the repository: links go from heading to heading as they do there.
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4

# Docstrings say what parameters are; their types are for type checkers and would hide the names.
autodoc_typehints = "none"
autodoc_member_order = "bysource"

WIDE = ["index", "support", "support-scipy", *sources().values()]  # without a table of contents
html_theme = "pydata_sphinx_theme"
html_title = "calque"
html_static_path = ["static"]
html_css_files = ["calque.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {"index": []}
html_theme_options = {
    "logo": {"text": "calque"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "pygments_light_style": "github-light",
    "pygments_dark_style": "github-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in WIDE}},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
