"""Made-up log-probabilities that are the same for the same tokens in every run."""

import re
from math import log
from typing import Any
from zlib import crc32

# A label at the start of a line ("A) Paris"), as multiple-choice prompts list their options.
LABEL = re.compile(r"^\s*([A-Za-z0-9]{1,3})[).:]", re.MULTILINE)
COMMON = ["yes", "no", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"0123456789"]
TOP_MAX = 20


def token_logprobs(token: str, top: int, prompt_text: str) -> dict[str, Any]:
    """One element of `logprobs.content`.

    The token itself has probability 0.5 to 0.75; each alternative has half of what the one before
    it left over, so that the distribution never sums to more than one. Options the prompt labels
    come first among the alternatives.
    """
    share = 0.5 + crc32(token.encode("utf-8", "replace")) % 1000 / 4000
    first = _entry(token, share)
    ranked = [first]
    left = 1 - share
    for alternative in _alternatives(token, prompt_text)[: min(top, TOP_MAX) - 1 if top else 0]:
        left /= 2
        ranked.append(_entry(alternative, left))
    return {**first, "top_logprobs": ranked[:top]}


def _entry(token: str, share: float) -> dict[str, Any]:
    data = token.encode("utf-8", "replace")
    return {"token": token, "logprob": round(log(share), 6), "bytes": list(data)}


def _alternatives(token: str, prompt_text: str) -> list[str]:
    listed = dict.fromkeys([*LABEL.findall(prompt_text), *COMMON])
    listed.pop(token, None)
    return list(listed)
