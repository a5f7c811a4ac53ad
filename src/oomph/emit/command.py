"""The command line, and the same as a file for `vllm serve --config`."""

from __future__ import annotations

import json
from typing import Any

from oomph.commands import to_shell
from oomph.engines.vllm.command import to_words
from oomph.errors import CannotPlan
from oomph.ir.deployment import Deployment


def command(d: Deployment) -> str:
    return to_shell(d) + "\n"


def config(d: Deployment) -> str:
    """Flags that are false are written as their --no- form, and mappings as JSON text: every release reads those."""
    if d.usage != "serve":
        raise CannotPlan("a --config file is for vllm serve, not for LLM(...)")
    values: dict[str, Any] = {"model": d.model}
    for field, value in d.flags.items():
        key = field.replace("_", "-")
        if value is False:
            values["no-" + key] = True
        elif isinstance(value, (dict, list)):
            values[key] = json.dumps(value) if isinstance(value, dict) else value
        else:
            values[key] = value
    lines = ["# vllm serve --config FILE"]
    lines += [f"# with {name}={value} in the environment" for name, value in d.environment.items()]
    return "\n".join(lines) + "\n" + dump(values)


def words(d: Deployment) -> list[str]:
    """What follows `vllm serve` in a container."""
    return to_words(d)[2:]


def dump(value: dict[str, Any]) -> str:
    """YAML in the order given, one line a value, nothing by reference."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(value, Dumper=Plain, sort_keys=False, width=1000)
