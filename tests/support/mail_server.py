"""A mail server of tests: SMTP, which lets nobody log in or send before STARTTLS."""

import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any


@dataclass
class MailServer:
    """What it was told: passwords of those who logged in, and messages. The next messages are
    answered with `refusals` in place of 250."""

    port: int
    tls: ssl.SSLContext
    passwords: list[str] = field(default_factory=list)
    messages: list[EmailMessage] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class _Conversation(StreamRequestHandler):
    mail_server: MailServer
    is_private = False

    def handle(self) -> None:
        self._say("220 mail.test ESMTP")
        while line := self.rfile.readline():
            verb, *words = line.decode().upper().split()
            if verb == "EHLO":
                self._say("250-mail.test")
                self._say("250 AUTH PLAIN" if self.is_private else "250 STARTTLS")
            elif verb == "STARTTLS":
                self._say("220 Ready")
                self.request = self.mail_server.tls.wrap_socket(self.request, server_side=True)
                self.setup()
                self.is_private = True
            elif verb == "QUIT":
                self._say("221 Bye")
                return
            elif not self.is_private:
                self._say("530 Must issue a STARTTLS command first")
            elif verb == "AUTH" and words[0] == "PLAIN":
                self.mail_server.passwords.append(b64decode(line.split()[2]).decode())
                self._say("235 Accepted")
            elif verb == "DATA":
                self._say("354 Go ahead")
                self._take_message()
            else:
                self._say("250 OK")

    def finish(self) -> None:
        super().finish()
        # The server closes the socket that it began with.
        self.request.close()

    def _take_message(self) -> None:
        lines = list(iter(self.rfile.readline, b".\r\n"))
        if self.mail_server.refusals:
            self._say(self.mail_server.refusals.pop(0))
            return
        message = message_from_bytes(b"".join(lines), policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.mail_server.messages.append(message)
        self._say("250 Queued")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Server(ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who does not trust the certificate hangs up."""


@contextmanager
def running_mail_server(certificate: Path) -> Iterator[MailServer]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    handler: Any = type("Conversation", (_Conversation,), {})
    with _Server(("127.0.0.1", 0), handler) as server:
        handler.mail_server = MailServer(server.server_address[1], tls)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield handler.mail_server
        finally:
            server.shutdown()
