"""The conformance catalogue, with every provider played by the simulated upstream."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

_FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
CONFORMANCE = _FIXTURES / "conformance.yaml"
# A model for each wire kind, two providers of each.
THREE_WIRES = _FIXTURES / "three_wires.yaml"
# Models that answer decisions in each of the ways.
DECISIONS = _FIXTURES / "decisions.yaml"


def rewritten(simulator_url: str, *, source: Path = CONFORMANCE) -> str:
    """The catalogue file as YAML; providers keep the path of their base_url."""
    catalogue = yaml.safe_load(source.read_text(encoding="utf-8"))
    for provider in catalogue["providers"]:
        provider["base_url"] = simulator_url + urlsplit(provider["base_url"]).path
    text: str = yaml.safe_dump(catalogue, sort_keys=False)
    return text


# A model of the conformance catalogue's providers that makes embeddings.
VECTORS: Final = """
- id: acme/vectors
  name: Acme Vectors
  created: 1759276800
  context_length: 100
  output_modalities: [embeddings]
  endpoints:
  - {provider: alpha, upstream_model: vectors-alpha, extra_parameters: [user],
     pricing: {prompt: "0.0000001", completion: "0"}}
  - {provider: gamma, upstream_model: vectors-gamma,
     pricing: {prompt: "0.0000004", completion: "0"}}
"""

# The cheaper of two providers fails each request; `url` is the simulated upstream's.
FAILOVER: Final = """
providers:
  - {{slug: down, name: Down, base_url: {url}/down/v1, credential: none}}
  - {{slug: up, name: Up, base_url: {url}/up/v1, credential: none}}
models:
  - id: acme/small
    name: Small
    created: 1767225600
    context_length: 128000
    endpoints:
      - provider: down
        upstream_model: sim/500
        pricing: &usd {{prompt: "0.000001", completion: "0"}}
      - {{provider: up, upstream_model: small-up, pricing: *usd}}
"""
