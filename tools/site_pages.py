"""mkdocs' hooks for the site of the documentation (`make site`): its navigation, and pages and links that are not below docs/.

The navigation is the index of the repository, docs/README.md: a section for each of its headings with a table, and
the pages in its order. README, CHANGELOG and the like become pages below `project/`; links to source files, which a site does not
have, become their text. Links that lead nowhere stay as they are, so that a strict build fails on them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
DECISIONS: Final = "decisions/README.md"
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_FENCED: Final = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r"^\|[^|]*\| \[[^\]]*\]\(([^)]+)\) \|$", re.MULTILINE)


def navigation(index: str) -> list[dict[str, Any]]:
    """What mkdocs takes as `nav`."""
    nav: list[dict[str, Any]] = [{"Documentation": "README.md"}]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        pages = [page_for("README.md", target) for target in _ROW.findall(section)]
        if pages:
            nav.append({section.partition("\n")[0]: pages})
    project = [f"project/{name}" for name in PROJECT]
    listed = {page for section in nav for pages in section.values() for page in pages}
    nav.append({"Project": [page for page in project if page not in listed]})
    return [*nav, {"Decisions": [f"decisions/{each.name}" for each in sorted((ROOT / "docs/decisions").glob("*.md"))]}]


def page_for(page: str, target: str) -> str:
    """Where on the site a link of a page leads; empty for what is not there. Both are paths, of the page on the site."""
    source = page.removeprefix("project/") if page.startswith("project/") else f"docs/{page}"
    found = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if found in PROJECT:
        return f"project/{found}"
    if found == "docs/decisions":
        return DECISIONS
    return found.removeprefix("docs/") if found.startswith("docs/") else ""


def site_links(page: str, markdown: str) -> str:
    def replace(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if not target or ":" in target:
            return link[0]
        found = page_for(page, target)
        if found:
            return f"[{text}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{anchor})"
        source = ROOT / (page.removeprefix("project/") if page.startswith("project/") else f"docs/{page}")
        return text if (source.parent / target).exists() else link[0]

    parts = _FENCED.split(markdown)
    return "".join(part if part.lstrip().startswith("```") else _LINK.sub(replace, part) for part in parts)


def decisions() -> str:
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    titles = ((page.name, page.read_text().partition("\n")[0].lstrip("# ")) for page in pages)
    return "# Decisions\n\n" + "".join(f"- [{title}]({name})\n" for name, title in titles)


def on_config(config: Any) -> Any:
    config.nav = navigation((ROOT / "docs/README.md").read_text())
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # there where the site is built, and not where the functions above are tested

    for name in PROJECT:
        files.append(File.generated(config, f"project/{name}", content=(ROOT / name).read_text()))
    files.append(File.generated(config, DECISIONS, content=decisions()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return site_links(page.file.src_uri, markdown)
