"""A web server of an issuer: documents by path, and how often each was asked for."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

DISCOVERY = "/.well-known/openid-configuration"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(key: rsa.RSAPrivateKey) -> str:
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, kind).decode()


def public_set(**keys: rsa.RSAPrivateKey) -> dict[str, Any]:
    """A key set with these keys, by their ids."""

    def entry(kid: str, key: rsa.RSAPrivateKey) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        return {**public, "kid": kid, "use": "sig", "alg": "RS256"}

    return {"keys": [entry(kid, key) for kid, key in keys.items()]}


def sign(
    key: Any, claims: dict[str, Any], *, algorithm: str = "RS256", kid: str | None = "one"
) -> str:
    """A token that is right except for these claims; a claim that is None is left out."""
    now = int(time.time())
    known = {"sub": "carol", "aud": "toolscout", "iat": now, "exp": now + 600, **claims}
    payload = {name: value for name, value in known.items() if value is not None}
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(payload, key, algorithm=algorithm, headers=headers)


@dataclass
class KeyServer:
    """What the server answers, and what it was asked."""

    base: str
    documents: dict[str, Any] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def publish(self, **keys: rsa.RSAPrivateKey) -> None:
        """Publish these keys, and where they are."""
        self.documents[DISCOVERY] = {"issuer": self.base, "jwks_uri": f"{self.base}/keys"}
        self.documents["/keys"] = public_set(**keys)


@contextmanager
def key_server(port: int = 0) -> Iterator[KeyServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked[self.path] += 1
            document = known.documents.get(self.path)
            body = json.dumps(document).encode()
            self.send_response(404 if document is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    known = KeyServer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
