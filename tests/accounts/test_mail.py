"""Events reach channels of e-mail over SMTP, and wait for a mail server that does not take them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from accounts.models import Delivery
from gateway.environment.notifications import read_email_settings
from tests.accounts.test_notifications import make_channel, rotate, send_due
from tests.support.certificates import write_certificate
from tests.support.mail_server import MailServer, running_mail_server
from tests.support.management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def mail_server(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MailServer]:
    certificate = write_certificate(tmp_path / "mail.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with running_mail_server(certificate) as mail_server:
        monkeypatch.setenv("EMAIL_URL", f"submission://ops:p%40ss@127.0.0.1:{mail_server.port}")
        for name, value in read_email_settings().items():
            setattr(settings, name, value)
        yield mail_server


def notify(mine: Manager) -> None:
    recipients = ["lead@example.com", "ops@example.com"]
    make_channel(mine, type="email", recipients=recipients, kinds=["key.created"])
    rotate(mine)


def test_an_email_goes_to_its_recipients_over_tls_from_who_logged_in(
    mine: Manager, mail_server: MailServer
) -> None:
    notify(mine)

    send_due(datetime.now(UTC))

    (message,) = mail_server.messages
    assert mail_server.passwords == ["\0ops\0p@ss"]
    assert message["To"] == "lead@example.com, ops@example.com"
    assert message["Subject"] == '[Routing Gateway] API key "ci" was created'
    assert "key.created" in message.get_content()
    assert Delivery.objects.get().state == "delivered"


def test_an_email_that_is_put_off_is_sent_again_until_it_is_taken(
    mine: Manager, mail_server: MailServer
) -> None:
    mail_server.refusals = ["451 Try again later", "552 Mailbox full"]
    notify(mine)
    now = datetime.now(UTC)

    for after_s, error in ((0, "451"), (11, "552"), (50, "")):
        send_due(now + timedelta(seconds=after_s))
        delivery = Delivery.objects.get()
        assert delivery.error == (error and f"The mail server answered {error}")
        assert delivery.state == ("pending" if error else "delivered")

    assert len(mail_server.messages) == 1


def test_a_mail_server_that_nobody_vouches_for_gets_neither_password_nor_message(
    mine: Manager, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    notify(mine)

    send_due(datetime.now(UTC))

    assert Delivery.objects.get().error == "The mail server: SSLCertVerificationError"
    assert (mail_server.passwords, mail_server.messages) == ([], [])
