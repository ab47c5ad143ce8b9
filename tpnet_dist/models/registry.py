"""Models by name. A new model is a folder here and its name in `MODELS`."""

from importlib import import_module
from typing import TYPE_CHECKING

from tpnet_dist.config.model_configs import register_model_config

if TYPE_CHECKING:
    from tpnet_dist.config.schema import Config
    from tpnet_dist.models.spec import ModelSpec, Needs

MODELS = ("tpnet", "graphmixer", "dygformer", "tcl", "tgat", "cawn")

for _name in MODELS:
    # settings alone: --help is not to wait for torch
    register_model_config(_name, import_module(f"tpnet_dist.models.{_name}.config").CONFIG)


def spec_named(name: str) -> "ModelSpec":
    spec: ModelSpec = import_module(f"tpnet_dist.models.{name}.spec").SPEC
    return spec


def spec_of(config: "Config") -> "ModelSpec":
    return spec_named(config.model.name)


def needs_of(config: "Config") -> "Needs":
    return spec_of(config).needs(config)
