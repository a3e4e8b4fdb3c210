"""From the first sign-in to the last: nobody helps the employee in, and the directory ends it."""

import pytest
from django.test import Client

from accounts.authentication import forget_keys
from accounts.keystring import hash_key
from accounts.models import ApiKey, AuditRecord, ScimUser
from accounts.services.keys import create_key
from accounts.services.organization import open_workspace
from gateway.http.jsonio import dumps
from tests.accounts.office import open_office
from tests.console.test_keys import KEY
from tests.support.identity_provider import Provider, sign_in

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.both,
    # The provider's own libraries.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_an_employee_comes_and_goes_without_anyone_s_help(
    provider: Provider, admin_client: Client
) -> None:
    office = open_office("acme")
    lab = open_workspace(account=office.account, slug="lab")
    _, directory_key = create_key(
        account=office.account, name="directory", workspace=None, scopes=["scim"]
    )
    mapping = {
        "provider": "acme", "claim": "groups", "value": "research", "account": office.account.pk,
        "role": "org:member", "workspace": lab.pk, "workspace_role": "member",
    }  # fmt: skip
    assert admin_client.post("/admin/accounts/claimmapping/add/", mapping).status_code == 302
    office.ok("PATCH", "/workspaces/lab", {"member_key_limits": {"limit": 5}})
    employee = Client(headers={"Accept": "text/html"})

    assert sign_in(employee, provider).status_code == 302
    form = {"name": "mine", "workspace": lab.pk, "limit_usd": "", "lifetime": "30"}
    assert "at most: 5 USD in all" in employee.get("/console/keys/new").text
    more = employee.post("/console/keys/new", form | {"limit_usd": "6"})
    assert (more.status_code, "at most 5 USD" in more.text) == (400, True)
    made = employee.post("/console/keys/new", form)

    (string,) = set(KEY.findall(made.text))
    status, said = office.call("GET", "/key", key=string)
    assert (status, said["data"]["limit"]) == (200, 5)
    assert said["data"]["workspace_id"] == str(lab.pk)
    # The directory says that the employee has left.
    person = ScimUser.objects.get(account=office.account)
    leaves = {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{"op": "replace", "path": "active", "value": False}],
    }
    left = Client(headers={"Authorization": f"Bearer {directory_key}"}).patch(
        f"/scim/v2/Users/{person.pk}", dumps(leaves), content_type="application/scim+json"
    )
    assert left.status_code == 200, left.content

    # What a second of waiting would do.
    forget_keys()
    assert office.call("GET", "/key", key=string)[0] == 401
    assert employee.get("/console/keys")["Location"].startswith("/?next=")
    assert sign_in(Client(), provider).status_code == 403
    key = ApiKey.objects.get(hash=hash_key(string))
    assert (key.disabled, key.workspace) == (True, lab)
    assert list_steps(person, key) == [
        ("claim_mapping", "created"),
        ("scim_user", "created"),
        ("sign_in", "signed in"),
        ("key", "created"),
        ("key", "updated"),
        ("scim_user", "updated"),
        ("sign_in", "failed"),
    ]


def list_steps(person: ScimUser, key: ApiKey) -> list[tuple[str, str]]:
    """What the audit has of the mapping, the person, the key and who signs in, in its order."""
    ids = {
        "scim_user": {str(person.pk)},
        "key": {str(key.pk)},
        # Of whom nobody knows here any more the audit has no number.
        "sign_in": {str(person.user_id), "unknown"},
    }
    rows = AuditRecord.objects.order_by("pk").values_list("object_type", "object_id", "action")
    return [
        (kind, action)
        for kind, object_id, action in rows
        if kind == "claim_mapping" or object_id in ids.get(kind, ())
    ]
