"""`python -m toolscout.gateway mcp.json`: serve over stdio."""

import sys

from ..catalog.sources.mcp.reading import read
from ..catalog.sources.mcp.source import MCPSource
from .server import Gateway, serve

serve(Gateway([MCPSource(s) for s in read(sys.argv[1]).servers])).run("stdio", show_banner=False)
