"""What an intern asks its door, and what it is told."""

from dataclasses import dataclass
from typing import Any

from interns.models import Intern
from tests.interns.outbound.site import Site
from tests.interns.vault.team import SHARED, Team, open_team

VALUE = 'canary/ä"value+&=1'


@dataclass
class Door:
    """`fetch` asks with the intern's own key."""

    team: Team
    intern: Intern
    site: Site

    def ask(self, *, key: str = "helper", **body: Any) -> Any:
        return self.team.ask("POST", f"/interns/{self.intern.pk}/fetch", body, key=key)

    def fetch(self, path: str = "/", **body: Any) -> Any:
        url = path if path.startswith("http") else self.site.url + path
        status, said = self.ask(url=url, **body)
        assert status == 200, said
        return said

    def expect_refusal(self, status: int, reason: str, **body: Any) -> str:
        """The message of a refusal."""
        got, said = self.ask(**body)
        assert got == status, said
        metadata = said["error"]["metadata"]
        assert metadata["reason"] == reason, said
        assert metadata["retryable"] is (status in {409, 429, 502, 504})
        message: str = said["error"]["message"]
        return message

    def keep(
        self, name: str, value: str = VALUE, hosts: Any = ("127.0.0.1",), *, place: str = SHARED
    ) -> None:
        self.team.put(f"{place}/{name}", value, list(hosts))


def open_door(site: Site) -> Door:
    team = open_team()
    intern, _ = team.create_running()
    return Door(team, intern, site)
