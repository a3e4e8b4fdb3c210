"""The words the catalogue is written in: closed lists of the API, in its order."""

from typing import Final

WIRE_KINDS: Final = ("openai", "anthropic", "responses", "decisions")
TIERS: Final = ("default", "flex", "priority")
REGIONS: Final = ("global", "europe", "us")
# Where an endpoint's price comes from: the operator, or the offline price book.
PRICE_SOURCES: Final = ("hand", "book")

STATUS_ELEVATED_ERRORS: Final = -1
STATUS_RATE_LIMITED: Final = -2
STATUS_DISABLED: Final = -5
STATUS_REMOVED: Final = -10
STATUS_ROUTABLE_MIN: Final = -2
STATUSES: Final = (0, -1, -2, -3, STATUS_DISABLED, STATUS_REMOVED)

QUANTIZATIONS: Final = (
    *("int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6", "fp8", "mxfp8"),
    *("fp16", "bf16", "fp32", "unknown"),
)
INPUT_MODALITIES: Final = ("text", "image", "file", "audio", "video")
# An output modality, and what endpoints of models with it alone are asked for.
EMBEDDINGS: Final = "embeddings"
OUTPUT_MODALITIES: Final = (
    *("text", "image", EMBEDDINGS, "audio", "video", "rerank", "decisions"),
    *("speech", "transcription"),
)
PARAMETERS: Final = (
    *("temperature", "top_p", "top_k", "min_p", "top_a"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
    *("max_tokens", "max_completion_tokens", "logit_bias", "logprobs", "top_logprobs"),
    *("prediction", "seed", "response_format", "structured_outputs", "stop"),
    *("tools", "tool_choice", "parallel_tool_calls"),
    *("include_reasoning", "reasoning", "reasoning_effort", "web_search_options", "verbosity"),
)
# Body fields beyond the published vocabulary that an endpoint may be sent: any name of this form.
# `developer` stands for the message role of that name.
EXTRA_PARAMETER_FORM: Final = r"^[a-z][a-z0-9_]{0,63}$"
DEFAULT_PARAMETERS: Final = (
    *("temperature", "top_p", "top_k"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
)
EFFORTS: Final = ("max", "xhigh", "high", "medium", "low", "minimal", "none")
CATEGORIES: Final = (
    *("programming", "roleplay", "marketing", "marketing/seo", "technology", "science"),
    *("translation", "legal", "finance", "health", "trivia", "academia"),
)
# Providers are not to be probed more often than the schedule looks.
PROBE_INTERVAL_MIN_S = 5
