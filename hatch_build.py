"""Build hook: make the links of the README absolute for package indexes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

# `[text](target)`, `![text](target)`, `[label]: target`, `<a href="target">`, `<img src="target">`
LINK = re.compile(
    r"""(?P<before>\]\(<?|^\[[^\]\n]+\]:[ \t]+|<\w+[^>]*?\s(?:href|src|srcset)=["'])"""
    r"""(?P<target>[^\s)>"']+)""",
    re.MULTILINE,
)
IMAGES = (".svg", ".png", ".gif", ".jpg", ".webp")


class AbsoluteReadme(MetadataHookInterface):
    """Gives the README to package indexes, which have no files that relative links could name."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme, with links to the repository at the tag of this version."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, repository, f"v{metadata['version']}"),
        }


def absolute_links(text: str, repository: str, ref: str) -> str:
    """Markdown with relative links made absolute; code blocks stay as they are."""
    pages = f"{repository}/blob/{ref}/"
    files = f"{repository.replace('//github.com/', '//raw.githubusercontent.com/')}/{ref}/"

    def replace(match: re.Match[str]) -> str:
        target = match["target"]
        url = urlsplit(target)
        if url.scheme or url.netloc or not url.path:
            return match[0]
        base = files if url.path.lower().endswith(IMAGES) else pages
        return f"{match['before']}{base}{target.removeprefix('./')}"

    # Odd parts are fenced blocks.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)
