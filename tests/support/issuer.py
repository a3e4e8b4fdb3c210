"""An issuer of tokens on loopback, whose keys can be rotated and which can go away."""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm


def new_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """Publishes `keys` by name; `make_token` signs with the newest. `asked` counts for keys."""

    def __init__(self) -> None:
        self.keys = {"first": new_key()}
        self.asked = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(issuer.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str) -> dict[str, Any]:
        if path.startswith("/.well-known/"):
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.asked += 1
        rows = []
        for name, key in self.keys.items():
            row = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
            rows.append({**row, "kid": name, "alg": "RS256", "use": "sig"})
        return {"keys": rows}

    def rotate(self) -> None:
        self.keys = {f"key-{len(self.keys)}-{time.monotonic_ns()}": new_key()}

    def make_token(
        self, *, key: Any = None, algorithm: str = "RS256", typ: str = "JWT", **claims: Any
    ) -> str:
        name, newest = list(self.keys.items())[-1]
        usual = {
            "iss": self.url,
            "aud": "gateway",
            "sub": "repo:acme/app:main",
            "exp": int(time.time()) + 300,
        }
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(
            said, key or newest, algorithm=algorithm, headers={"kid": name, "typ": typ}
        )

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
