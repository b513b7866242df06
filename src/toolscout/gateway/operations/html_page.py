"""A small HTML page that loads nothing: no script, no image, no frame."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from starlette.responses import HTMLResponse

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;"
    "color:#222;background:#fff}code,pre{font-family:ui-monospace,monospace;background:#f3f3f3;"
    "border-radius:4px}code{padding:.1em .3em}pre{padding:.8em;overflow-x:auto}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
    "code,pre{background:#2a2a2a}a{color:#8bf}}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PAGE = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{head}
<title>Toolscout</title><style>{style}</style></head>
<body>
<h1>Toolscout</h1>
{body}
</body>
</html>
"""


def page_headers(*, has_form: bool = False) -> Mapping[str, str]:
    """The headers of a page; forms may be sent to this gateway only."""
    target = "'self'" if has_form else "'none'"
    return {
        # Nothing but the style of this page, by its hash.
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none';"
            f" form-action {target}; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        # With `no-referrer`, browsers hide the origin of a form, which is checked here.
        "Referrer-Policy": "same-origin" if has_form else "no-referrer",
        "Cache-Control": "no-store",
        "Vary": "Accept, Cookie, Authorization",
    }


def html_response(
    body: str, *, status_code: int = 200, has_form: bool = False, next_path: str = ""
) -> HTMLResponse:
    """A page with this body, which goes on to a path of the gateway if there is one."""
    head = f'\n<meta http-equiv="refresh" content="0;url={next_path}">' if next_path else ""
    return HTMLResponse(
        _PAGE.format(head=head, style=_STYLE, body=body),
        status_code=status_code,
        headers=dict(page_headers(has_form=has_form)),
    )
