"""A mapping as YAML."""

from typing import Any


def dump(value: dict[str, Any]) -> str:
    """YAML in the order of the keys, one line per value, nothing by reference."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(value, Dumper=Plain, sort_keys=False, width=1000)
