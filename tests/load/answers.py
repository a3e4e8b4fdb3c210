"""One answer looked at before thousands are counted: a fast wrong answer would be a fine figure."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from tests.load.generators import LoadFailed, Target
from tests.load.stand import COMPLETION_NANO, PROMPT_NANO

_ANSWER_S = 30.0


def asked(target: Target) -> dict[str, Any]:
    """The JSON that one POST is answered with. Raises `LoadFailed` for anything else."""
    parts = urlsplit(target.url)
    headers = {
        **target.headers,
        "Authorization": f"Bearer {target.key}",
        "Content-Type": "application/json",
    }
    connection = http.client.HTTPConnection(parts.netloc, timeout=_ANSWER_S)
    try:
        connection.request("POST", parts.path, target.body.encode(), headers)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise LoadFailed(f"no answer from {target.url}: {error}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise LoadFailed(f"{target.url} answered {response.status}: {body[:500]!r}")
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise LoadFailed(f"{target.url} answered no JSON: {body[:500]!r}") from error
    assert isinstance(answer, dict)
    return answer


def check_passed_on(answer: dict[str, Any], direct: dict[str, Any]) -> None:
    """`answer` says what the upstream says. Raises `LoadFailed`."""
    for told, meant in ((_content(answer), _content(direct)), (_tokens(answer), _tokens(direct))):
        if told != meant:
            raise LoadFailed(f"the upstream's {meant!r} arrived as {told!r}")


def check_governed(answer: dict[str, Any], direct: dict[str, Any]) -> None:
    """It is also priced by the tokens it reports, so its body was read. Raises `LoadFailed`."""
    check_passed_on(answer, direct)
    prompt, completion = _tokens(answer)
    due_nano = prompt * PROMPT_NANO + completion * COMPLETION_NANO
    cost_nano = round(answer["usage"].get("cost", 0) * 1e9)
    if not due_nano or cost_nano != due_nano:
        raise LoadFailed(f"{prompt} and {completion} tokens cost {cost_nano}, not {due_nano} nano")


def _content(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def _tokens(answer: dict[str, Any]) -> tuple[int, int]:
    usage = answer["usage"]
    return int(usage["prompt_tokens"]), int(usage["completion_tokens"])
