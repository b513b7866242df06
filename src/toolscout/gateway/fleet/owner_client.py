"""Let the gateway that a request belongs to answer it, if it still can."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from ...errors import StoreError
from .internal_route import OwnerGoneError, OwnerSilentError, PassOnClient, error_response
from .replicas import ReplicaRegistry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerWords:
    """What to answer if the owner does not: each is an error, and empty if this gateway can answer.

    `may_have_run` is for a request that the owner got and that may have effects, `last_words` ends
    a stream that it had begun.
    """

    owner_silent: str
    store_silent: str = ""
    may_have_run: str = ""
    last_words: str = ""


class OwnerClient:
    """Finds the owners of requests, and passes requests on to them."""

    def __init__(self, registry: ReplicaRegistry, client: PassOnClient) -> None:
        self._registry = registry
        self._client = client

    @property
    def replica(self) -> str:
        """The name of this gateway."""
        return self._registry.replica

    async def pass_on(
        self,
        owner: str,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        *,
        words: OwnerWords,
    ) -> bool:
        """Whether the owner, or an error, has answered; if not, this gateway has to."""
        error_text = ""
        try:
            address = await asyncio.to_thread(self._registry.find_address, owner)
            if address is None:
                return False
            await self._client.send(
                owner,
                address,
                scope,
                body=body,
                receive=receive,
                send=send,
                gone=self._registry.wait_until_gone(owner),
                last_words=words.last_words,
            )
        except StoreError as error:
            log.warning("A request cannot be passed on: %s", error.message)
            error_text = words.store_silent
        except OwnerGoneError as error:
            self._registry.forget(owner)
            error_text = words.may_have_run if error.was_sent else ""
        except OwnerSilentError as error:
            self._registry.forget(owner)
            may_have_run = words.may_have_run if error.may_have_run else ""
            error_text = may_have_run or words.owner_silent
        else:
            return True
        if error_text:
            await error_response(body, error_text)(scope, receive, send)
        return bool(error_text)
