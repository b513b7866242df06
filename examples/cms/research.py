"""Research tools: search the web, read a page, or read several and collect excerpts."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urljoin

from toolscout import tool

from .http_tools import HttpTools, readable_text

_EXCERPT = 600


class Research:
    def __init__(self, http: HttpTools, web: str) -> None:
        self._http = http
        self._web = web

    @tool(
        name="web_quickSearch",
        category="research",
        phrases=["search the web", "quick web search", "look something up"],
        related=["web_fetchContent", "web_deepResearch"],
        risk="safe",
    )
    def search(self, query: str) -> dict[str, Any]:
        """Search the web and get titles, addresses and short excerpts.

        Args:
            query: What to look for.
        """
        url = urljoin(self._web, f"/search?q={quote(query)}")
        status, body = self._http.fetch(url)
        if status != 200:
            raise ConnectionError(f"The search service answered {status}.")
        return {"query": query, "results": json.loads(body)}

    @tool(
        name="web_deepResearch",
        category="research",
        phrases=["deep research", "research a topic", "gather sources"],
        related=["web_quickSearch", "web_fetchContent"],
        risk="safe",
    )
    def research(self, question: str, sources: int = 3) -> dict[str, Any]:
        """Search the web, read the best pages, and gather what they say.

        Args:
            question: What you want to know.
            sources: How many pages to read.
        """
        hits = self.search(question)["results"][: max(1, sources)]
        findings = []
        for hit in hits:
            page = self.fetch(hit["url"])
            findings.append(
                {"title": page["title"], "url": hit["url"], "excerpt": page["text"][:_EXCERPT]}
            )
        return {"question": question, "findings": findings}

    @tool(
        name="web_fetchContent",
        category="research",
        phrases=["fetch a web page", "read a website", "content of a url"],
        related=["web_quickSearch"],
        risk="safe",
    )
    def fetch(self, url: str) -> dict[str, Any]:
        """Read the text of a web page.

        Args:
            url: The page's address.
        """
        status, body = self._http.fetch(url)
        if status != 200:
            raise ConnectionError(f"{url} answered {status}.")
        title, text = readable_text(body.decode("utf-8", "replace"))
        return {"url": url, "title": title, "text": text}

    @property
    def tools(self) -> tuple[Any, ...]:
        return self.search, self.research, self.fetch
