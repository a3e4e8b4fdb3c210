"""Plugins: what each takes, and which are in force."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from routing.formats.fields import REQUIRED, WHOLE, Amount, Count, NonEmpty, Tagged
from routing.formats.server_tools import (
    AnalysisModels,
    LeafTools,
    SearchEngine,
    SearchMode,
    UserLocation,
)

PATTERN_CHARS_TOTAL_MAX: Final = 65_536


def _limit_total_length(patterns: list[str]) -> list[str]:
    if sum(map(len, patterns)) > PATTERN_CHARS_TOTAL_MAX:
        raise ValueError(
            f"Too big: expected patterns to have <={PATTERN_CHARS_TOTAL_MAX} characters in total"
        )
    return patterns


ModelPatterns = Annotated[
    list[Annotated[str, Field(max_length=1024)]],
    Field(max_length=1024),
    AfterValidator(_limit_total_length),
]
CostTier = Literal["low", "medium", "high", "xhigh", "max"]


class _Plugin(TypedDict, total=False):
    enabled: bool


CLASSIFIER_MS: Final = 5_000
_MODEL_CHARS_MAX: Final = 300
_CLASSES_MAX: Final = 32
_TEXT_CHARS_MAX: Final = 4_096


class PromptClass(TypedDict, total=False):
    model: Annotated[NonEmpty, Field(max_length=_MODEL_CHARS_MAX), REQUIRED]
    description: Annotated[str, Field(max_length=_TEXT_CHARS_MAX)]


class Classifier(TypedDict, total=False):
    model: Annotated[NonEmpty, Field(max_length=_MODEL_CHARS_MAX), REQUIRED]
    classes: Annotated[
        dict[NonEmpty, PromptClass], Field(min_length=2, max_length=_CLASSES_MAX), REQUIRED
    ]
    instructions: Annotated[str, Field(max_length=_TEXT_CHARS_MAX)]
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    fallback: Annotated[NonEmpty, Field(max_length=_MODEL_CHARS_MAX)]
    timeout_ms: Annotated[int, Field(ge=1, le=60_000), WHOLE]


class AutoRouter(_Plugin, total=False):
    id: Annotated[Literal["auto-router", "auto-beta-router"], REQUIRED]
    allowed_models: ModelPatterns
    excluded_models: ModelPatterns
    cost_tier: CostTier
    cost_quality_tradeoff: Annotated[int, Field(ge=0, le=10), WHOLE]
    pin_model: bool
    classifier: Classifier


class ParetoRouter(_Plugin, total=False):
    id: Annotated[Literal["pareto-router"], REQUIRED]
    min_coding_score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    max_price: Amount
    price_source: Literal["prompt", "weighted_avg"]


class ModerationPlugin(TypedDict, total=False):
    id: Annotated[Literal["moderation"], REQUIRED]


class _Web(_Plugin, total=False):
    id: Annotated[Literal["web"], REQUIRED]
    engine: SearchEngine
    mode: SearchMode
    max_results: Count
    max_uses: Count
    search_prompt: str
    include_domains: list[str]
    exclude_domains: list[str]
    user_location: UserLocation | None


def _refuse_both_lists(plugin: _Web) -> _Web:
    if plugin.get("include_domains") and plugin.get("exclude_domains"):
        raise ValueError("Invalid input: include_domains and exclude_domains exclude each other")
    return plugin


Web = Annotated[_Web, AfterValidator(_refuse_both_lists)]


class WebFetchPlugin(_Plugin, total=False):
    id: Annotated[Literal["web-fetch"], REQUIRED]
    max_uses: Count
    max_content_tokens: Count
    allowed_domains: list[str]
    blocked_domains: list[str]


class PdfSettings(TypedDict, total=False):
    engine: Literal["mistral-ocr", "native", "cloudflare-ai", "pdf-text"]


class FileParserPlugin(_Plugin, total=False):
    id: Annotated[Literal["file-parser"], REQUIRED]
    pdf: PdfSettings


class ResponseHealingPlugin(_Plugin, total=False):
    id: Annotated[Literal["response-healing"], REQUIRED]
    # Whole answers that do not fit the JSON schema are asked for once more.
    repair: bool


class ContextCompressionPlugin(_Plugin, total=False):
    id: Annotated[Literal["context-compression"], REQUIRED]
    engine: Literal["middle-out"]


SEMANTIC_MS: Final = 2_000
SEMANTIC_THRESHOLD: Final = 0.95
SEMANTIC_TTL_S: Final = 3_600


class SemanticCachePlugin(_Plugin, total=False):
    id: Annotated[Literal["semantic-cache"], REQUIRED]
    model: Annotated[NonEmpty, Field(max_length=_MODEL_CHARS_MAX), REQUIRED]
    threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    ttl_s: Annotated[int, Field(ge=1, le=86_400), WHOLE]
    timeout_ms: Annotated[int, Field(ge=1, le=60_000), WHOLE]


class FusionPlugin(_Plugin, total=False):
    id: Annotated[Literal["fusion"], REQUIRED]
    analysis_models: AnalysisModels
    model: str
    max_tool_calls: Annotated[int, Field(ge=1, le=16), WHOLE]
    preset: Literal["general-high", "general-budget", "general-fast"]
    tools: LeafTools


class JevRouter(_Plugin, total=False):
    id: Annotated[Literal["jev-router"], REQUIRED]
    models: ModelPatterns
    allowed_models: ModelPatterns
    excluded_models: ModelPatterns


class SwitchyardRouter(_Plugin, total=False):
    id: Annotated[Literal["switchyard-router"], REQUIRED]
    algorithm: Literal["capability", "stage", "auto", "random", "composite", "passthrough"]


Plugin = Annotated[
    AutoRouter
    | ParetoRouter
    | ModerationPlugin
    | Web
    | WebFetchPlugin
    | FileParserPlugin
    | ResponseHealingPlugin
    | ContextCompressionPlugin
    | SemanticCachePlugin
    | FusionPlugin
    | JevRouter
    | SwitchyardRouter,
    Tagged("id"),
]


def list_effective_plugins(
    plugins: Iterable[JsonObject] | None, transforms: list[str] | None
) -> list[JsonObject]:
    """The plugins in force: the last entry of each id, `transforms` read as context compression.

    Switched-off entries stay, because they turn an account default off.
    """
    by_id: dict[str, JsonObject] = {}
    if transforms is not None:
        enabled = "middle-out" in transforms
        by_id["context-compression"] = {"id": "context-compression", "enabled": enabled}
    for plugin in plugins or ():
        by_id[plugin["id"]] = plugin
    return list(by_id.values())
