"""What `toolscout serve` was asked for, and how a process does it."""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .gateway_runner import GatewayRunner
from .kept_greeting import KeptGreeting
from .serve_log import LogFormat, configure_logs
from .setup_reader import SetupReader

if TYPE_CHECKING:
    from ..config import Config
    from ..gateway.fleet.worker import Worker
    from ..gateway.setup import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The options of one run; without a path, of the embedded example."""

    path: Path | None
    overrides: Mapping[str, Any]
    project: Path | None
    session: str
    log_format: LogFormat
    is_quiet: bool
    is_verbose: bool

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Launch:
        """The options as another process wrote them with `to_dict`."""
        known: dict[str, Any] = dict(values)
        for name in ("path", "project"):
            known[name] = Path(known[name]) if known[name] else None
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """The options for JSON; paths become texts."""
        return asdict(self)

    def configure_logs(self) -> None:
        """Print records as the options say."""
        configure_logs(self.log_format, is_quiet=self.is_quiet, is_verbose=self.is_verbose)

    def find_kept_greeting(self) -> KeptGreeting | None:
        """The answer of an earlier start; None if this one may differ from it."""
        # A continued conversation may have more in its instructions.
        if self.path is None or self.session:
            return None
        return KeptGreeting(self.path, self.overrides, project=self.project or Path.cwd())

    def open_reader(self) -> SetupReader:
        """What reads the configuration of this run."""
        path, config = (self.path, None) if self.path is not None else _example()
        return SetupReader(path, self.overrides, config, self.project)

    def load_gateway(self) -> GatewayRunner:
        """Read the configuration for a start, and load the gateway."""
        with pause_gc():
            reader = self.open_reader()
            return self.build_runner(reader, reader.read_first())

    def load_worker(self, worker: Worker) -> GatewayRunner:
        """Load the gateway for a worker; its supervisor has checked the configuration."""
        with pause_gc():
            reader = self.open_reader()
            return self.build_runner(reader, reader.read(), worker=worker)

    def build_runner(
        self, reader: SetupReader, setup: Setup, *, worker: Worker | None = None
    ) -> GatewayRunner:
        """The gateway of a configuration."""
        return GatewayRunner(
            reader, setup, session=self.session, log_format=self.log_format, worker=worker
        )


@contextmanager
def pause_gc() -> Generator[None]:
    """Import without collecting garbage."""
    # Imports create many objects that live as long as the process. Collecting while they are made
    # finds nothing, and freeze() keeps later collections from looking at them again.
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _example() -> tuple[Path, Config]:
    """The configuration of the example, and settings with a separate home."""
    from importlib.metadata import version

    from ..catalog.tool import digest
    from ..config import Config
    from ..examples import CATALOG
    from .example import write_example_config

    # By version: after an update the example's tools are new ones, not changed ones to approve.
    edition = digest(version("toolscout"), CATALOG.read_text(encoding="utf-8"))
    home = Config.read().state_folder / f"example-{edition}"
    return write_example_config(home), Config.read(home=str(home))
