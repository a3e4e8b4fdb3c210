"""A language model of a few thousand random numbers, as a GGUF file.

It is made so that the first token after a prompt is nearly always a mark of an option. Which one
depends on the prompt in a way that nobody can foresee.
"""

import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MARKS = ("yes", "no", "A", "B", "C", "0", "1", "2")
_WORDS = (*MARKS, "\u2581yes", "\u2581no", "\u2581A", "\u2581B", "\u2581", "e", "t", "a", "o", "n")
_SIZE, _FORWARD, _HEADS, _BLOCKS, _CONTEXT = 64, 64, 4, 1, 4096
_ALIGNMENT = 32
_UNKNOWN, _CONTROL, _NORMAL, _BYTE = 2, 3, 1, 6
# The first number of every token's vector, alike in all, and of the rows of marks and of others.
_SHARED, _LIKELY, _UNLIKELY = 4.0, 1.0, -1.0
_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
# What makes a model one that answers decisions: a way of reading them, and a template of its own.
_DECIDES, _DECISIONS_TEMPLATE = "openjev", "State: {{ state }}\nQuestion: {{ question }}\nAnswer:"

# GGUF's numbers for types of values and of tensors.
_UINT32, _FLOAT32, _STRING, _ARRAY, _INT32, _BOOL = 4, 6, 8, 9, 5, 7
_F32 = 0

Tensor = tuple[str, Sequence[int], list[float]]


def write_tiny_model(file: Path, *, decides: bool = False, seed: int = 7) -> None:
    """The same model for the same seed; with `decides` one that answers decisions itself."""
    tensors = list(_tensors(random.Random(seed)))
    facts = [*_facts(), *(_decisions_facts() if decides else ())]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    told, data = b"".join(facts), b""
    for name, shape, numbers in tensors:
        told += _text(name) + struct.pack("<I", len(shape))
        told += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", _F32, len(data))
        data += _pad(struct.pack(f"<{len(numbers)}f", *numbers))
    file.write_bytes(_pad(head + told) + data)


def _vocabulary() -> list[tuple[str, float, int]]:
    """Text, score and type of each token: what every SentencePiece model has, and words."""
    special = [("<unk>", 0.0, _UNKNOWN), ("<s>", 0.0, _CONTROL), ("</s>", 0.0, _CONTROL)]
    octets = [(f"<0x{octet:02X}>", 0.0, _BYTE) for octet in range(256)]
    words = [(word, -float(rank), _NORMAL) for rank, word in enumerate(_WORDS)]
    return [*special, *octets, *words]


def _facts() -> Iterator[bytes]:
    texts, scores, kinds = zip(*_vocabulary(), strict=True)
    for key, kind, value in (
        ("general.architecture", _STRING, "llama"),
        ("general.name", _STRING, "tiny random"),
        ("llama.context_length", _UINT32, _CONTEXT),
        ("llama.embedding_length", _UINT32, _SIZE),
        ("llama.block_count", _UINT32, _BLOCKS),
        ("llama.feed_forward_length", _UINT32, _FORWARD),
        ("llama.attention.head_count", _UINT32, _HEADS),
        ("llama.attention.head_count_kv", _UINT32, _HEADS),
        ("llama.rope.dimension_count", _UINT32, _SIZE // _HEADS),
        ("llama.attention.layer_norm_rms_epsilon", _FLOAT32, 1e-5),
        ("llama.vocab_size", _UINT32, len(texts)),
        ("tokenizer.ggml.model", _STRING, "llama"),
        ("tokenizer.ggml.bos_token_id", _UINT32, 1),
        ("tokenizer.ggml.eos_token_id", _UINT32, 2),
        ("tokenizer.ggml.unknown_token_id", _UINT32, 0),
        ("tokenizer.ggml.add_space_prefix", _BOOL, False),
        ("tokenizer.chat_template", _STRING, _TEMPLATE),
    ):
        yield _fact(key, kind, value)
    yield _array("tokenizer.ggml.tokens", _STRING, texts)
    yield _array("tokenizer.ggml.scores", _FLOAT32, scores)
    yield _array("tokenizer.ggml.token_type", _INT32, kinds)


def _decisions_facts() -> Iterator[bytes]:
    yield _fact("llama.decision.type", _STRING, _DECIDES)
    yield _fact("tokenizer.chat_template.systemone", _STRING, _DECISIONS_TEMPLATE)
    yield _array("tokenizer.chat_templates", _STRING, ["systemone"])


def _tensors(dice: random.Random) -> Iterator[Tensor]:
    """Shapes as GGUF has them: the length of a row first."""
    words = _vocabulary()
    embedded = [[_SHARED, *_random(dice, _SIZE - 1, 1.0)] for _ in words]
    yield "token_embd.weight", (_SIZE, len(words)), _flat(embedded)
    for block in range(_BLOCKS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{block}.{name}.weight", (_SIZE,), [1.0] * _SIZE
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{block}.{name}.weight", (_SIZE, _SIZE), _random(dice, _SIZE**2, 0.2)
        for name, shape in (
            ("ffn_gate", (_SIZE, _FORWARD)),
            ("ffn_up", (_SIZE, _FORWARD)),
            ("ffn_down", (_FORWARD, _SIZE)),
        ):
            numbers = _random(dice, _SIZE * _FORWARD, 0.05)
            yield f"blk.{block}.{name}.weight", shape, numbers
    yield "output_norm.weight", (_SIZE,), [1.0] * _SIZE
    rows = [
        [_LIKELY if text in MARKS else _UNLIKELY, *_random(dice, _SIZE - 1, 0.1)]
        for text, _, _ in words
    ]
    yield "output.weight", (_SIZE, len(words)), _flat(rows)


def _random(dice: random.Random, count: int, spread: float) -> list[float]:
    return [dice.gauss(0, spread) for _ in range(count)]


def _flat(rows: list[list[float]]) -> list[float]:
    return [number for row in rows for number in row]


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _fact(key: str, kind: int, value: Any) -> bytes:
    return _text(key) + struct.pack("<I", kind) + _value(kind, value)


def _value(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _text(value)
    return struct.pack({_UINT32: "<I", _FLOAT32: "<f", _INT32: "<i", _BOOL: "<?"}[kind], value)


def _array(key: str, kind: int, values: Sequence[Any]) -> bytes:
    head = _text(key) + struct.pack("<IIQ", _ARRAY, kind, len(values))
    return head + b"".join(_value(kind, value) for value in values)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)
