"""Server tools, plugins and the sandboxes they run in."""

from gateway import env
from gateway.environment.section import Section

setting = Section("Tools, plugins and sandboxes")
ROUTER_TOOL_BACKENDS = setting(
    "ROUTER_TOOL_BACKENDS",
    "what runs server tools and plugins that are not built in: "
    "`router:web_search=package.module.Maker`, with commas between",
    env.tool_backends,
)
ROUTER_TOOL_TIMEOUT = setting(
    "ROUTER_TOOL_TIMEOUT", "how long a server tool may take", env.seconds, 60
)
ROUTER_MODERATION_HOOK = setting(
    "ROUTER_MODERATION_HOOK",
    "import path of the function that the plugin `moderation` asks",
    env.import_path,
)
ROUTER_MODERATION_TIMEOUT = setting(
    "ROUTER_MODERATION_TIMEOUT", "how long that function may take", env.seconds, 10
)
ROUTER_TOOL_RESULT_CHARS = setting(
    "ROUTER_TOOL_RESULT_CHARS",
    "characters of a server tool's result that the model sees",
    env.integer,
    100_000,
    minimum=100,
)
SANDBOX_UIDS = setting(
    "SANDBOX_UIDS",
    "host users that a gateway running as root gives to interns, shells and file readers, one "
    "each; it runs none of them as root",
    env.sandbox_users,
)
SANDBOX_CGROUP = setting(
    "SANDBOX_CGROUP",
    "folder of the cgroup v2 tree given to this gateway alone, where each sandbox is bounded as a "
    "whole; `auto` is what systemd delegated (`Delegate=yes`), `off` bounds each process",
    env.cgroup,
)
ROUTER_SHELL = setting(
    "ROUTER_SHELL",
    "`auto` runs the shells, files and patches of server tools inside bubblewrap, and refuses "
    "them without it; `off` refuses them",
    env.choice,
    "auto",
    ("auto", "off"),
)
ROUTER_SHELLS_MAX = setting(
    "ROUTER_SHELLS_MAX",
    "workspaces of shells at once, per web process",
    env.integer,
    8,
    minimum=1,
    maximum=1024,
)
ROUTER_SHELL_MEMORY_BYTES = setting(
    "ROUTER_SHELL_MEMORY_BYTES",
    "memory of the processes of a workspace",
    env.integer,
    536_870_912,
    minimum=67_108_864,
)
ROUTER_SHELL_DISK_BYTES = setting(
    "ROUTER_SHELL_DISK_BYTES",
    "files of a workspace, which are in memory too",
    env.integer,
    67_108_864,
    minimum=1_048_576,
)
ROUTER_SHELL_CPUS = setting(
    "ROUTER_SHELL_CPUS",
    "processors of a workspace, where `SANDBOX_CGROUP` holds",
    env.decimal,
    1,
    minimum=0.1,
    maximum=1024,
)
ROUTER_SHELL_PROCESSES = setting(
    "ROUTER_SHELL_PROCESSES", "processes of a workspace", env.integer, 64, minimum=1, maximum=4096
)
ROUTER_FILE_BYTES = setting(
    "ROUTER_FILE_BYTES",
    "largest file that the plugin `file-parser` reads, and PDF that `router:web_fetch` reads",
    env.integer,
    20_971_520,
    minimum=1024,
)
ROUTER_FILE_PAGES = setting(
    "ROUTER_FILE_PAGES",
    "pages read of a PDF; further ones are left out",
    env.integer,
    500,
    minimum=1,
    maximum=100_000,
)
ROUTER_FILE_SECONDS = setting(
    "ROUTER_FILE_SECONDS", "how long all files of a request may take to read", env.seconds, 20
)
ROUTER_RESPONSE_CACHE_ENABLED = setting(
    "ROUTER_RESPONSE_CACHE_ENABLED",
    "lets callers have exact requests answered from a cache",
    env.boolean,
    False,
)
ROUTER_RESPONSE_CACHE_ENTRIES = setting(
    "ROUTER_RESPONSE_CACHE_ENTRIES", "answers that the cache keeps", env.integer, 2_048, minimum=1
)
ROUTER_RESPONSE_CACHE_ENTRY_BYTES = setting(
    "ROUTER_RESPONSE_CACHE_ENTRY_BYTES",
    "largest answer that the cache keeps",
    env.integer,
    131_072,
    minimum=1024,
    maximum=16_777_216,
)
ROUTER_SHARE_IDENTICAL = setting(
    "ROUTER_SHARE_IDENTICAL",
    "which of the same requests under way share one answer: `repeatable` ones and those that ask "
    "for it, those `asked` for, or none",
    env.choice,
    "repeatable",
    ("repeatable", "asked", "off"),
)
ROUTER_SEARCH_ENGINE = setting(
    "ROUTER_SEARCH_ENGINE",
    "what `router:web_search` searches with",
    env.choice,
    "",
    ("", "brave", "exa", "searxng", "tavily"),
)
ROUTER_SEARCH_URL = setting(
    "ROUTER_SEARCH_URL",
    "base URL of the search engine, where it is not the engine's own",
    env.base_url,
)
ROUTER_SEARCH_KEY = setting("ROUTER_SEARCH_KEY", "key of the search engine", env.text)
ROUTER_SEARCH_TIMEOUT = setting(
    "ROUTER_SEARCH_TIMEOUT", "how long a search may take", env.seconds, 10
)
if ROUTER_SEARCH_ENGINE == "searxng" and not ROUTER_SEARCH_URL:
    raise env.SettingError("ROUTER_SEARCH_URL", "needed: where the SearXNG instance is")
if ROUTER_SEARCH_ENGINE not in ("", "searxng") and not ROUTER_SEARCH_KEY:
    raise env.SettingError("ROUTER_SEARCH_KEY", f"needed by {ROUTER_SEARCH_ENGINE}")
ROUTER_FETCH_BYTES = setting(
    "ROUTER_FETCH_BYTES",
    "how much of a page `router:web_fetch` reads",
    env.integer,
    5_242_880,
    minimum=1024,
    maximum=67_108_864,
)
ROUTER_FETCH_PRIVATE_HOSTS = setting(
    "ROUTER_FETCH_PRIVATE_HOSTS",
    "hosts of your own network that file URLs of callers and `router:web_fetch` may reach, with "
    "commas between",
    env.host_names,
)
