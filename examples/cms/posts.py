"""Tools for blog posts: drafts, publishing and archiving."""

from __future__ import annotations

import sqlite3
from typing import Any, Literal

from toolscout import tool
from toolscout.catalog.tool import Extraction

from .database import Database, slug_of

_POST = Extraction("post", "post", "title")


class Posts:
    def __init__(self, database: Database) -> None:
        self._database = database

    @tool(
        name="cms_createPost",
        category="posts",
        phrases=["create post", "write a blog post", "new article"],
        related=["cms_publishPost", "cms_updatePost"],
        risk="moderate",
        extraction=_POST,
    )
    def create(self, title: str, body: str, slug: str = "") -> dict[str, Any]:
        """Write a new post; it stays a draft until it is published.

        Args:
            title: The post's title.
            body: Its text, in Markdown.
            slug: Its address; made from the title if left out.
        """
        address = slug_of(slug or title)
        try:
            made = self._database.change(
                "INSERT INTO posts (title, slug, body) VALUES (?, ?, ?)", title, address, body
            )
        except sqlite3.IntegrityError as error:
            raise ValueError(f"There is a post {address!r} already.") from error
        return {"post": self._post(made)}

    @tool(
        name="cms_updatePost",
        category="posts",
        phrases=["update post", "edit a blog post", "change an article"],
        related=["cms_getPost", "cms_publishPost"],
        risk="moderate",
        extraction=_POST,
    )
    def update(self, post_id: int, title: str = "", body: str = "") -> dict[str, Any]:
        """Change a post's title or text; its state stays.

        Args:
            post_id: The post's id.
            title: A new title, if it is to change.
            body: A new text, if it is to change.
        """
        row = self._database.get("posts", post_id, noun="post")
        values = (title or row["title"], body or row["body"], post_id)
        self._database.change("UPDATE posts SET title = ?, body = ? WHERE id = ?", *values)
        return {"post": self._post(post_id)}

    @tool(
        name="cms_publishPost",
        category="posts",
        phrases=["publish post", "make a post public", "put an article online"],
        related=["cms_getPost", "cms_archivePost"],
        risk="moderate",
        requires_confirmation=True,
        extraction=_POST,
    )
    def publish(self, post_id: int) -> dict[str, Any]:
        """Publish a post, so that everyone can read it.

        Args:
            post_id: The post's id.
        """
        return self._set(post_id, "published")

    @tool(
        name="cms_archivePost",
        category="posts",
        phrases=["archive post", "take a post offline", "unpublish"],
        related=["cms_publishPost", "cms_listPosts"],
        risk="moderate",
        requires_confirmation=True,
        extraction=_POST,
    )
    def archive(self, post_id: int) -> dict[str, Any]:
        """Archive a post: it goes offline but is not lost.

        Args:
            post_id: The post's id.
        """
        return self._set(post_id, "archived")

    @tool(
        name="cms_deletePost",
        category="posts",
        phrases=["delete post", "remove a blog post"],
        related=["cms_archivePost", "cms_listPosts"],
        risk="destructive",
        requires_confirmation=True,
    )
    def delete(self, post_id: int) -> dict[str, Any]:
        """Delete a post for good.

        Args:
            post_id: The post's id.
        """
        row = self._database.get("posts", post_id, noun="post")
        self._database.change("DELETE FROM posts WHERE id = ?", post_id)
        return {"deleted": post_id, "was": row["title"]}

    @tool(
        name="cms_listPosts",
        category="posts",
        phrases=["list posts", "show blog posts", "drafts"],
        related=["cms_getPost"],
        risk="safe",
        extraction=Extraction("posts", "post", "title", is_array=True),
    )
    def list(
        self, status: Literal["any", "draft", "published", "archived"] = "any"
    ) -> dict[str, Any]:
        """List posts, newest first.

        Args:
            status: Only posts in this state.
        """
        rows = self._database.all("SELECT * FROM posts ORDER BY id DESC")
        return {"posts": [_to_dict(r) for r in rows if status in ("any", r["status"])]}

    @tool(
        name="cms_getPost",
        category="posts",
        phrases=["get post", "read a blog post", "show an article"],
        related=["cms_updatePost"],
        risk="safe",
        extraction=Extraction("$root", "post", "title"),
    )
    def get(self, post_id: int) -> dict[str, Any]:
        """Read one post with its text.

        Args:
            post_id: The post's id.
        """
        row = self._database.get("posts", post_id, noun="post")
        return {**_to_dict(row), "body": row["body"]}

    def _set(self, post_id: int, status: str) -> dict[str, Any]:
        self._database.get("posts", post_id, noun="post")
        self._database.change("UPDATE posts SET status = ? WHERE id = ?", status, post_id)
        return {"post": self._post(post_id)}

    def _post(self, post_id: int) -> dict[str, Any]:
        return _to_dict(self._database.get("posts", post_id, noun="post"))

    @property
    def tools(self) -> tuple[Any, ...]:
        return (
            self.create,
            self.update,
            self.publish,
            self.archive,
            self.delete,
            self.list,
            self.get,
        )


def _to_dict(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "title": row["title"], "slug": row["slug"], "status": row["status"]}
