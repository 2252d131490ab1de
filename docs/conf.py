"""Settings of the documentation.

    sphinx-build -W docs out

builds it, with the Python package installed and the command `fdime` on the path or in FDIME_COMMAND. The packages
furo, latex2mathml, myst-parser, scikit-learn and sphinx are needed. Formulas become MathML here, so that pages need no
script and no network to show them.
"""

import dataclasses
import json
import os
import re
import shutil
import subprocess
from pathlib import PurePosixPath

import fdime
import latex2mathml.converter
from docutils import nodes

project = "fdime"
author = "the fdime authors"
copyright = author
version = release = fdime.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_mock_imports = ["torch"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "fdime"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1d4ed8", "color-brand-content": "#1d4ed8"},
    "dark_css_variables": {"color-brand-primary": "#93b4ff", "color-brand-content": "#93b4ff"},
}
# Pages also show well in the repository, where links may leave this folder. On the site only their text is left.
LINK = re.compile(r"(?<!!)\[([^]]*)\]\((\.\./[^)]*)\)")
FUNCTION = re.compile(r"(<mi>ln</mi>)(?!<mo[^>]*>(\(|&#x00028;))")
COMMANDS = "<!-- every command with its --help -->"
SCHEMAS = "<!-- the JSON of every command -->"


def help_of(*words: str) -> str:
    """Return the help of the command line, as a terminal of 80 columns shows it."""
    return output_of(*words, "--help").rstrip()


def output_of(*words: str) -> str:
    """Return what the command prints."""
    command = os.environ.get("FDIME_COMMAND") or shutil.which("fdime")
    if command is None:
        raise SystemExit("the command fdime is not on the path; name it in FDIME_COMMAND")
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    shown = subprocess.run(
        [command, *words], capture_output=True, text=True, check=True, env=environment
    )
    return shown.stdout


def reference() -> str:
    """Return a section for each command, with its help."""
    listed = help_of().split("Commands:\n")[1].split("\n\n")[0]
    names = re.findall(r"^  ([a-z-]+) ", listed, re.M)
    sections = (f"## {name}\n\n```text\n{help_of(name)}\n```\n" for name in names if name != "help")
    return "\n".join(sections)


def json_of_commands() -> str:
    """Return a section for each command with a schema: a table of the keys of its JSON."""
    names = re.findall(r"possible values: (.*?)\]", help_of("schema"), re.S)[0].split(",")
    return "\n".join(keys_of(name.strip()) for name in names)


def keys_of(command: str) -> str:
    schema = json.loads(output_of("schema", command))
    lines = [f"## {command}\n", "| key | type | content |", "| --- | --- | --- |"]
    for part, title in [(schema, ""), *((d, n) for n, d in schema.get("$defs", {}).items())]:
        if title and "properties" in part:
            lines += [f"\n### {command}: {title}\n", part.get("description", "") + "\n"]
            lines += ["| key | type | content |", "| --- | --- | --- |"]
        for key, value in part.get("properties", {}).items():
            content = " ".join(value.get("description", "").replace("|", "\\|").split())
            lines.append(f"| `{key}` | {type_of(value)} | {content} |")
    return "\n".join(lines) + "\n"


def type_of(schema: dict) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(type_of(part) for part in schema["anyOf"])
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"list of {type_of(schema['items'])}"
    return " or ".join(kind) if isinstance(kind, list) else kind


def without_outside_links(page: str, text: str) -> str:
    """Replace links to files that are not in this folder by their text."""

    def replaced(link: re.Match[str]) -> str:
        depth = len(PurePosixPath(page).parts) - 1
        leaves = link[2].startswith("../" * (depth + 1))
        return link[1] if leaves else link[0]

    return LINK.sub(replaced, text)


def on_source_read(_app: object, page: str, source: list[str]) -> None:
    source[0] = without_outside_links(page, source[0])
    if COMMANDS in source[0]:
        source[0] = source[0].replace(COMMANDS, reference())
    if SCHEMAS in source[0]:
        source[0] = source[0].replace(SCHEMAS, json_of_commands())


def show_formula(writer, node, display: str = "inline") -> None:
    """Write a formula as MathML."""
    formula = latex2mathml.converter.convert(node.astext(), display=display)
    # TeX leaves a space between a function and its argument, unless that is in parentheses.
    formula = FUNCTION.sub(r'\1<mspace width="0.17em"/>', formula)
    writer.body.append(f'<div class="formula">{formula}</div>' if display == "block" else formula)
    raise nodes.SkipNode


def show_formula_block(writer, node) -> None:
    show_formula(writer, node, "block")


def signature_of_class(_app, what, _name, value, _options, signature, annotation):
    """Leave out the arguments of classes that only the library creates, such as results."""
    if what == "class" and (dataclasses.is_dataclass(value) or value is fdime.Critics):
        return "", annotation
    return signature, annotation


def setup(app) -> None:
    app.connect("source-read", on_source_read)
    app.connect("autodoc-process-signature", signature_of_class)
    app.add_html_math_renderer("mathml", (show_formula, None), (show_formula_block, None))
