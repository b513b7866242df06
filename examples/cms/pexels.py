"""Tools for stock photos: search a photo service, and download to the site's images."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urljoin

from toolscout import tool
from toolscout.catalog.tool import Extraction

from .database import slug_of
from .http_tools import HttpTools
from .images import Images


class Pexels:
    def __init__(self, http: HttpTools, images: Images, service: str) -> None:
        self._http = http
        self._images = images
        self._service = service

    @tool(
        name="pexels_searchPhotos",
        category="pexels",
        phrases=["search stock photos", "find a photo on pexels", "stock image"],
        related=["pexels_downloadPhoto", "cms_searchImages"],
        risk="safe",
        extraction=Extraction("photos", "photo", "alt", is_array=True),
    )
    def search(self, query: str, limit: int = 5) -> dict[str, Any]:
        """Search stock photos; nothing is downloaded yet.

        Args:
            query: What the photo should show.
            limit: How many to return.
        """
        path = f"/v1/search?query={quote(query)}&per_page={max(1, limit)}"
        return {"photos": self._request(path)["photos"]}

    @tool(
        name="pexels_downloadPhoto",
        category="pexels",
        phrases=["download a stock photo", "save a photo from pexels"],
        related=["pexels_searchPhotos", "cms_updateSectionImage"],
        risk="moderate",
    )
    def download(self, photo_id: int) -> dict[str, Any]:
        """Download a stock photo into our own images.

        Args:
            photo_id: The photo's id, as pexels_searchPhotos gives it.
        """
        photo = self._request(f"/v1/photos/{photo_id}")
        status, data = self._http.fetch(urljoin(self._service, photo["src"]))
        if status != 200:
            raise ConnectionError(f"The photo service answered {status}.")
        filename = f"{slug_of(photo['alt'])[:40].strip('-')}.png"
        image = self._images.keep(filename, data, alt=photo["alt"], credit=photo["photographer"])
        return {"image": image, "credit": photo["photographer"]}

    def _request(self, path: str) -> dict[str, Any]:
        status, body = self._http.fetch(urljoin(self._service, path))
        if status == 404:
            raise LookupError("The photo service has no such photo; search for one first.")
        if status != 200:
            raise ConnectionError(f"The photo service answered {status}.")
        answer: dict[str, Any] = json.loads(body)
        return answer

    @property
    def tools(self) -> tuple[Any, ...]:
        return self.search, self.download
