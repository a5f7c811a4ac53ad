"""How a release reads a command line where it is not plain argparse."""

from __future__ import annotations

from typing import Literal

from oomph.facts.changes import Dated, Facts, changes, since, until


class CommandLine(Facts):
    # -O3: compilation_config.level, .mode, or a flag of its own (utils/argparse_utils.py parse_args)
    dash_o: Dated[Literal["level", "mode", "optimization_level"]] = changes(
        "level", ("0.11.1", "mode"), ("0.12.0", "optimization_level")
    )
    # -O.key=value: --compilation-config up to 0.11, still read as -cc.key in 0.12 (argparse_utils.py:260)
    dotted_o = until("0.13.0")
    # what the image vllm/vllm-openai starts (docker/Dockerfile)
    entry_point = changes(("python3", "-m", "vllm.entrypoints.openai.api_server"), ("0.11.1", ("vllm", "serve")))
    moves_model_flag = since("0.11.1")  # `vllm serve --model X`: refused, then moved to the front with a warning
    negates_yaml_false = since("0.28.0")  # `key: false` in a --config file: dropped, then read as --no-key
    yaml_mapping_is_json = since("0.16.0")  # a mapping in a --config file: its Python text, then JSON
    json_numbers_are_human = since("0.20.0")  # 80m and 1G inside JSON and after --flag.key
