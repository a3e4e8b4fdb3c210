"""Key strings: what they look like, and which ones cost a query."""

import hashlib
import random
import re
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.keystring import hash_of, label_of, looks_real, new_key

PREFIX = "sk-rt-v1-"


def test_a_key_is_prefix_56_random_digits_and_8_of_the_checksum() -> None:
    key = new_key(PREFIX)

    assert re.fullmatch(r"sk-rt-v1-[0-9a-f]{64}", key)
    assert int(key[-8:], 16) == crc32(key[:-8].encode())
    assert looks_real(key, PREFIX)


def test_keys_do_not_repeat() -> None:
    assert len({new_key(PREFIX) for _ in range(1000)}) == 1000


def test_the_hash_is_sha256_of_the_whole_string() -> None:
    key = new_key(PREFIX)

    assert hash_of(key) == hashlib.sha256(key.encode("ascii")).hexdigest()


def test_the_label_shows_three_digits_at_each_end() -> None:
    key = PREFIX + "abc" + "d" * 58 + "890"

    assert label_of(key, PREFIX) == "sk-rt-v1-abc...890"


def mangled(key: str, chance: random.Random) -> str:
    """A typo: a digit changed, two neighbours swapped, one lost, one too many, upper case."""
    at = chance.randrange(len(PREFIX), len(key) - 1)
    other = chance.choice([digit for digit in "0123456789abcdef" if digit != key[at]])
    swapped = key[:at] + key[at + 1] + key[at] + key[at + 2 :]
    return chance.choice(
        [
            key[:at] + other + key[at + 1 :],
            swapped if swapped != key else key[:-1],
            key[:at] + key[at + 1 :],
            key[:at] + other + key[at:],
            key.upper(),
            key[len(PREFIX) :],
            f"{key} ",
            key.replace("sk-rt", "sk-or"),
        ]
    )


def test_a_thousand_typos_are_all_told_from_real_keys() -> None:
    chance = random.Random(1)
    key = new_key(PREFIX)

    assert not any(looks_real(mangled(key, chance), PREFIX) for _ in range(1000))


ODD = ["", PREFIX, "Bearer", "sk-", "é" * 73, PREFIX + "é" * 64, PREFIX + "\x00" * 64, "0" * 10**6]


@pytest.mark.parametrize("text", ODD, ids=lambda text: text[:12])
def test_odd_strings_are_no_keys(text: str) -> None:
    assert not looks_real(text, PREFIX)


@given(st.text())
def test_whatever_is_sent_is_looked_at_without_an_error(text: str) -> None:
    assert not looks_real(PREFIX + text, PREFIX) or len(text) == 64
