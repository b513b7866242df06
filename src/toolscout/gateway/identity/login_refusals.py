"""Why a login with a browser did not succeed."""

from __future__ import annotations


class LoginRefusedError(Exception):
    """A login that did not succeed; the text is for the person at the browser."""
