"""The documentation's settings: `sphinx-build -W docs out` builds it from the installed package."""

import fdime

project = "fdime"
author = "the fdime authors"
version = release = fdime.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_mock_imports = ["torch"]
nitpicky = False
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Mutual information that people trust",
    "fixed_sidebar": True,
    "page_width": "1160px",
    "sidebar_width": "240px",
}
