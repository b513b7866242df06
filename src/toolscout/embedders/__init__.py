"""Embedders by specification: bundled encoder, ONNX model, OpenAI-compatible endpoint."""

from __future__ import annotations

import re
from urllib.parse import unquote

from ..errors import ConfigError
from .embedder import Embedder, Prompts

KINDS = "none, use, onnx:FOLDER, openai:MODEL@URL"

# A path may contain a plus, so it separates only if a kind follows.
_SEPARATOR = re.compile(r"\+(?=\s*(?:none|use)\s*(?:\+|$)|\s*(?:onnx|openai):)")
# After the model's location: `?latin`, `?query=…&passage=…`.
_OPTION = r"(?:latin|query=[^&]*|passage=[^&]*)"
_OPTIONS = re.compile(rf"\?({_OPTION}(?:&{_OPTION})*)\Z")
_ADDRESS = re.compile(r"@(?=https?://)")


def load_embedders(spec: str) -> tuple[Embedder, ...]:
    """Load the embedders of a specification; several are joined by `+`."""
    return tuple(
        e for part in _SEPARATOR.split(spec) if (e := _load_embedder(part.strip())) is not None
    )


def _load_embedder(spec: str) -> Embedder | None:
    kind, _, rest = spec.partition(":")
    match kind:
        case "none" | "" if not rest:
            return None
        case "use" if not rest:
            # Imported when needed: each kind has its own, partly optional, dependencies.
            from .universal_encoder import default_encoder

            return default_encoder()
        case "onnx" if rest:
            return _load_onnx(rest)
        case "openai" if rest:
            return _load_endpoint(rest)
        case _:
            raise ConfigError(f"There is no embedder {spec!r}.", hint=f"Choose from: {KINDS}.")


def _load_onnx(rest: str) -> Embedder:
    from .onnx import OnnxEncoder

    path, options = _split_options(rest)
    return OnnxEncoder(path, prompts=_make_prompts(options), is_latin_only="latin" in options)


def _load_endpoint(rest: str) -> Embedder:
    from .endpoint import EmbeddingsEndpoint

    location, options = _split_options(rest)
    model, *address = _ADDRESS.split(location, maxsplit=1)
    return EmbeddingsEndpoint(
        model,
        base_url=address[0] if address else None,
        prompts=_make_prompts(options),
        is_latin_only="latin" in options,
    )


def _split_options(rest: str) -> tuple[str, dict[str, str]]:
    """Split off the options; a question mark without known options is part of the location."""
    found = _OPTIONS.search(rest)
    if found is None:
        return rest, {}
    pairs = (option.partition("=") for option in str(found[1]).split("&"))
    return rest[: found.start()], {name: unquote(value) for name, _, value in pairs}


def _make_prompts(options: dict[str, str]) -> Prompts:
    return Prompts(options.get("query"), options.get("passage"))
