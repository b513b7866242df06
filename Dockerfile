# syntax=docker/dockerfile:1
# The gateway. Build: docker build -t toolscout .   Use: docs/deployment.md
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE CHANGELOG.md requirements.txt ./
COPY src src
COPY examples examples
# Into an environment of its own, with the versions that the tests run with.
RUN python -m venv /opt/toolscout \
    && /opt/toolscout/bin/pip install --no-cache-dir \
        --constraint requirements.txt ".[mcp,tokens,offload,postgres]"

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Toolscout" \
    org.opencontainers.image.description="Tool search for LLM agents, as an MCP gateway" \
    org.opencontainers.image.source="https://github.com/toolscout/toolscout" \
    org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --create-home --home-dir /home/toolscout toolscout \
    && install -d -o toolscout -g toolscout -m 0700 /var/lib/toolscout
COPY --from=build /opt/toolscout /opt/toolscout
ENV PATH=/opt/toolscout/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TOOLSCOUT_HOME=/var/lib/toolscout
USER 10001:10001
WORKDIR /home/toolscout
VOLUME /var/lib/toolscout
EXPOSE 8765
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/health/live', timeout=4)"]
# A configuration with [auth], mounted: the gateway refuses to listen to a network without it.
ENTRYPOINT ["toolscout"]
CMD ["serve", "--config", "/etc/toolscout/gateway.toml", "--http", "0.0.0.0:8765"]
