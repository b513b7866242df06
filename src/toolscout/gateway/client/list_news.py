"""News of a session's list of tools, for the clients that other gateways serve."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from ..identity.roles import CallerRole, Identity
from .sessions import Principal

TOPIC = "tool_lists"
"""The topic of the change feed."""


class ListNews(BaseModel):
    """A call at one gateway has changed the list of tools of a session."""

    model_config = ConfigDict(frozen=True)

    replica: str
    session: str
    principal: str
    role: CallerRole

    @classmethod
    def of(cls, caller: Principal, *, replica: str) -> ListNews:
        """The news that a gateway has of a caller."""
        return cls(replica=replica, session=caller.session, principal=caller.name, role=caller.role)

    @classmethod
    def read(cls, payload: str) -> ListNews | None:
        """The news in a payload of the feed; None if a later version wrote something else."""
        try:
            return cls.model_validate_json(payload)
        except ValidationError:
            return None

    @property
    def identity(self) -> Identity:
        """Whose session it is."""
        return Identity(self.principal, self.role)
