"""Tools that nobody can call here, because something of our own answers to their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..catalog.catalog import Catalog
from ..disclosure.profile import Profile
from .features import Features


def taken(catalog: Catalog, *, profile: Profile, features: Features) -> Mapping[str, str]:
    """The sources of such tools, each with which they are and what to do."""
    own = dict.fromkeys(features.answered, "a feature of this toolbox")
    own |= dict.fromkeys((m.name for m in profile.metatools), f"the profile {profile.name}")
    found: dict[str, list[str]] = defaultdict(list)
    for name, owner in own.items():
        if (source := catalog.source_of(name)) is not None:
            found[source].append(f"{name} cannot be called, since {owner} has a tool of that name")
    return {source: f"{'; '.join(why)}. Give it another name." for source, why in found.items()}
