"""Settings are read typed; an odd value stops the start by the setting's name."""

from ipaddress import ip_network
from typing import Any

import pytest

from gateway import env
from gateway.env import SettingError

NAME = "SOME_SETTING"


def reading(monkeypatch: pytest.MonkeyPatch, value: str, reader: Any, *args: Any, **kw: Any) -> Any:
    monkeypatch.setenv(NAME, value)
    return reader(NAME, *args, **kw)


READ: list[tuple[Any, tuple[Any, ...], dict[str, Any], str, Any]] = [
    (env.text, ("d",), {}, " a b ", "a b"),
    (env.text, ("d",), {}, "  ", "d"),
    (env.boolean, (False,), {}, "1", True),
    (env.boolean, (False,), {}, "TRUE", True),
    (env.boolean, (True,), {}, "off", False),
    (env.boolean, (True,), {}, "", True),
    (env.integer, (7,), {}, "12", 12),
    (env.integer, (7,), {}, "", 7),
    (env.integer, (7,), {"minimum": 0}, "0", 0),
    (env.integer, (7,), {"maximum": 9}, "9", 9),
    (env.optional_integer, (), {}, "", None),
    (env.optional_integer, (), {}, "5", 5),
    (env.decimal, (1.5,), {}, "0.25", 0.25),
    (env.decimal, (1.5,), {}, "", 1.5),
    (env.seconds, (10,), {}, "0.001", 0.001),
    (env.choice, ("a", ("a", "b")), {}, "b", "b"),
    (env.words, (), {}, " a, ,b ,", ["a", "b"]),
    (env.words, ("x,y",), {}, "", ["x", "y"]),
    (
        env.tool_backends,
        (),
        {},
        "router:web_search=a.b.C, web-fetch=d.e",
        {"router:web_search": "a.b.C", "web-fetch": "d.e"},
    ),
    (env.import_path, (), {}, "", ""),
    (env.import_path, (), {}, "package.module.hook", "package.module.hook"),
    (env.model_patterns, (), {}, "", ()),
    (env.model_patterns, (), {}, "a/b:free, small ,*/x-*", ("a/b:free", "small", "*/x-*")),
    (env.networks, (), {}, "", ()),
    (
        env.networks,
        (),
        {},
        "127.0.0.1, fd00::/8",
        (ip_network("127.0.0.1"), ip_network("fd00::/8")),
    ),
    (env.base_url, (), {}, "", ""),
    (env.base_url, (), {}, "https://gateway.example/", "https://gateway.example"),
    (env.base_url, (), {}, "http://[::1]:8000/below", "http://[::1]:8000/below"),
    (env.proxy, (), {}, "", ""),
    (env.proxy, (), {}, "http://127.0.0.1:3128", "http://127.0.0.1:3128"),
    (env.proxy, (), {}, "http://proxy.example:3128/", "http://proxy.example:3128"),
    (env.key_prefix, ("sk-",), {}, "", "sk-"),
    (env.key_prefix, ("sk-",), {}, "-", "-"),
    (env.key_prefix, ("sk-",), {}, "acme_live.v1-", "acme_live.v1-"),
    (env.key_prefix, ("sk-",), {}, "a" * 19 + "-", "a" * 19 + "-"),
]


@pytest.mark.parametrize(("reader", "args", "options", "value", "expected"), READ)
def test_what_is_read(
    monkeypatch: pytest.MonkeyPatch,
    reader: Any,
    args: tuple[Any, ...],
    options: dict[str, Any],
    value: str,
    expected: Any,
) -> None:
    found = reading(monkeypatch, value, reader, *args, **options)

    assert found == expected
    assert type(found) is type(expected)


ODD: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (env.boolean, (False,), {}, "maybe"),
    (env.boolean, (False,), {}, "2"),
    (env.integer, (7,), {}, "many"),
    (env.integer, (7,), {}, "1.5"),
    (env.integer, (7,), {}, "-1"),
    (env.integer, (7,), {"minimum": 1}, "0"),
    (env.integer, (7,), {"maximum": 9}, "10"),
    (env.integer, (7,), {}, "9" * 5000),
    (env.optional_integer, (), {"minimum": 1}, "0"),
    (env.decimal, (1.0,), {}, "much"),
    (env.decimal, (1.0,), {}, "nan"),
    (env.decimal, (1.0,), {}, "inf"),
    (env.decimal, (1.0,), {}, "-0.1"),
    (env.decimal, (1.0,), {"maximum": 1}, "1.01"),
    (env.seconds, (1.0,), {}, "0"),
    (env.seconds, (1.0,), {}, "1e9"),
    (env.choice, ("a", ("a", "b")), {}, "c"),
    (env.model_patterns, (), {}, "a/b;c/d"),
    (env.model_patterns, (), {}, "a/b, ~a/b-latest"),
    (env.model_patterns, (), {}, "a" * 201),
    (env.import_path, (), {}, "package/module.py"),
    (env.url, (("http",),), {}, "ftp://x"),
    (env.url, (("http",),), {}, "http://x:port"),
    (env.url, (("http",),), {}, "http://x:99999"),
    (env.url, (("http",),), {}, "http://[::1"),
    (env.url, (("http",),), {}, "nonsense"),
    (env.base_url, (), {}, "gateway.example"),
    (env.base_url, (), {}, "ftp://gateway.example"),
    (env.base_url, (), {}, "https://"),
    (env.base_url, (), {}, "https://me:pass-word@gateway.example"),
    (env.base_url, (), {}, "https://gateway.example/?a=b"),
    (env.base_url, (), {}, "https://gateway.example/#a"),
    (env.base_url, (), {}, "https://gateway.example/a b"),
    (env.base_url, (), {}, "https://gateway\n.example"),
    (env.base_url, (), {}, "https://gateway.example:port"),
    (env.proxy, (), {}, "https://proxy.example:3128"),
    (env.proxy, (), {}, "http://proxy.example"),
    (env.proxy, (), {}, "http://proxy.example:0"),
    (env.proxy, (), {}, "http://:3128"),
    (env.proxy, (), {}, "http://me:pass-word@proxy.example:3128"),
    (env.proxy, (), {}, "http://proxy.example:3128/below"),
    (env.proxy, (), {}, "proxy.example:3128"),
    (env.key_prefix, ("sk-",), {}, "sk"),
    (env.key_prefix, ("sk-",), {}, "s k-"),
    (env.key_prefix, ("sk-",), {}, "clé-"),
    (env.key_prefix, ("sk-",), {}, "s\tk-"),
    (env.key_prefix, ("sk-",), {}, "a" * 20 + "-"),
]


@pytest.mark.parametrize(("reader", "args", "options", "value"), ODD)
def test_what_is_odd_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    reader: Any,
    args: tuple[Any, ...],
    options: dict[str, Any],
    value: str,
) -> None:
    with pytest.raises(SettingError) as caught:
        reading(monkeypatch, value, reader, *args, **options)

    assert str(caught.value).startswith(f"{NAME}: ")
    assert caught.value.name == NAME


def test_a_url_s_password_is_not_repeated_in_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("ftp://me:pass-word@x", "http://me:pass-word@x:port", "http://me:pass-word@[x"):
        with pytest.raises(SettingError) as caught:
            reading(monkeypatch, value, env.url, ("http",))
        assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("reader", [env.base_url, env.proxy])
def test_nor_where_no_user_may_be_named(monkeypatch: pytest.MonkeyPatch, reader: Any) -> None:
    with pytest.raises(SettingError) as caught:
        reading(monkeypatch, "http://me:pass-word@x:1", reader)

    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("reader", [env.text, env.words])
def test_unset_and_empty_are_the_same(monkeypatch: pytest.MonkeyPatch, reader: Any) -> None:
    monkeypatch.delenv(NAME, raising=False)

    assert reader(NAME) == reading(monkeypatch, "", reader)
