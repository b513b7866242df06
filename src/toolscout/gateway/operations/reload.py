"""Apply edits of the configuration and of pins while the gateway runs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, cast

from ...errors import ToolscoutError
from ...store.processes import current_process, list_running
from ..setup import Setup, file_stamp

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
# Settings that are used once, when the gateway starts, by the name that users read.
_FIXED_SETTINGS: Mapping[str, Callable[[Setup], object]] = {
    "gateway.large_outputs": lambda s: s.options.large_outputs,
    "gateway.rules": lambda s: s.options.rules,
    "gateway.skills": lambda s: s.options.skills,
    "gateway.overlay": lambda s: s.options.overlay,
    "gateway.memory": lambda s: s.options.memory,
    "profile.rules": lambda s: s.profile.rules,
    "profile.memory": lambda s: s.profile.remembers,
    "gateway.audit_forward": lambda s: s.options.audit_forward,
    "gateway.audit_queue": lambda s: s.options.audit_queue,
    "gateway.show_queries": lambda s: s.shows_queries,
    "gateway.workers": lambda s: s.options.workers,
    "gateway.allowed_hosts": lambda s: s.options.allowed_hosts,
    "gateway.allowed_origins": lambda s: s.options.allowed_origins,
    "gateway.tls_cert": lambda s: (s.options.tls_cert, s.options.tls_key),
    "auth.tokens (the first, or none left)": lambda s: bool(s.settings.auth.tokens),
    "auth.issuer and what belongs to it": lambda s: s.settings.auth.model_dump(
        exclude={"tokens", "role_claim", "admin_values", "jwt", "provider", "options"}
    ),
    "auth.jwt": lambda s: s.settings.auth.jwt,
    "auth.provider": lambda s: (s.settings.auth.provider, dict(s.settings.auth.options)),
    "limits.session_idle_seconds": lambda s: s.settings.limits.session_idle_seconds,
    # With its headers, which repr() leaves out.
    "telemetry": lambda s: s.settings.telemetry.model_dump(),
    "the settings of search and store": lambda s: s.config,
}


def hash_fixed_settings(setup: Setup) -> Mapping[str, str]:
    """A hash of each setting that a running gateway cannot change."""
    # Hashes, because they are written to disk and the settings hold secrets.
    return {
        name: hashlib.sha256(repr(value(setup)).encode()).hexdigest()
        for name, value in _FIXED_SETTINGS.items()
    }


def settings_needing_restart(before: Mapping[str, str], setup: Setup) -> tuple[str, ...]:
    """The settings that differ from those at the start, and need a restart to take effect."""
    # The record of an older version may lack a setting. That one cannot be compared.
    return tuple(
        name for name, now in hash_fixed_settings(setup).items() if before.get(name, now) != now
    )


class GatewayProcesses:
    """The running gateways of a state folder, and the settings each was started with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def register(self, setup: Setup) -> None:
        """Record that this process serves a configuration."""
        record = {
            "config": str(setup.path.resolve()),
            "fixed": hash_fixed_settings(setup),
            "process": current_process(),
        }
        # Without the record `toolscout check` only misses a warning, so a full disk must not keep
        # the gateway from starting.
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.write_text(json.dumps(record), encoding="utf-8")

    def unregister(self) -> None:
        """Remove the record of this process."""
        with suppress(OSError):
            self._path.unlink()

    def is_served(self, path: Path) -> bool:
        """Whether a gateway is running that serves this configuration."""
        running = list_running(self._folder)
        return any(record.get("config") == str(path.resolve()) for _, record in running)

    def restart_warnings(self, setup: Setup) -> Iterator[str]:
        """For every process that serves this configuration: which edits need a restart."""
        for pid, record in list_running(self._folder):
            if record.get("config") != str(setup.path.resolve()):
                continue
            started = cast("Mapping[str, str]", record.get("fixed", {}))
            if names := settings_needing_restart(started, setup):
                yield (
                    f"The gateway that runs as process {pid} uses these only after"
                    f" a restart: {', '.join(names)}."
                )

    @property
    def _path(self) -> Path:
        return self._folder / f"{os.getpid()}.json"


class Reloadable(Protocol):
    """The part of a gateway that `watch_config` needs; the gateway imports this module."""

    setup: Setup

    @property
    def problem(self) -> str:
        """What is wrong now; empty if nothing is."""
        ...

    async def apply(self, setup: Setup) -> None:
        """Use an edited configuration."""
        ...

    async def recheck_pins(self) -> None:
        """Apply pins that were approved or revoked."""
        ...

    def report_problem(self, problem: str) -> None:
        """Remember what is wrong."""
        ...


async def watch_config(
    gateway: Reloadable, read_setup: Callable[[], Setup], *, every_seconds: float = POLL_SECONDS
) -> None:
    """Apply every edit; an invalid one is reported, and the old configuration stays."""
    # Polling needs no extra package, and one stat() per second costs nothing.
    # Of what was read: the file may have been edited since, while the gateway started.
    stamp = gateway.setup.stamp
    while True:
        await asyncio.sleep(every_seconds)
        with _report_errors(gateway, "Changed pins are not applied"):
            await gateway.recheck_pins()
        now = file_stamp(gateway.setup.path)
        if now != stamp:
            stamp = now
            with _report_errors(gateway, "The edited configuration is not applied"):
                await gateway.apply(read_setup())


@contextmanager
def _report_errors(gateway: Reloadable, what: str) -> Generator[None]:
    try:
        yield
    # Any error: an edit that ended the watcher would leave all later edits without effect.
    except Exception as error:
        is_ours = isinstance(error, ToolscoutError)
        # The message of another library may quote a part of the file, and so a secret.
        why = str(error) if is_ours else f"It cannot be read: {type(error).__name__}."
        # The watcher runs every second. Each problem is logged once.
        if why != gateway.problem:
            log.warning("%s: %s", what, why)
            log.debug("%s", what, exc_info=not is_ours)
        gateway.report_problem(why)
