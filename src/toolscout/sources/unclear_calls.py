"""What to say about a call that was sent and has no usable answer: it may have run."""

from __future__ import annotations

from http import HTTPStatus

MAY_HAVE_RUN_HINT = "It may still have run: check before calling again."
RETRY_HINT = "Try again later."

# With these the server says that the request was wrong, so it did not run. A timeout is the
# exception.
_REFUSING_STATUSES = frozenset(range(400, 500)) - {HTTPStatus.REQUEST_TIMEOUT}


def is_refusal(status_code: int) -> bool:
    """Whether an HTTP status is certain to mean that the call did not run."""
    return status_code in _REFUSING_STATUSES
