"""check_emitted.py [--llama-swap SCHEMA] [--promtool PROGRAM]: what --emit writes, by other projects' own validators.

Twenty deployments (tests/emit/test_decisions.py). In the environment: skypilot (its task schema), kserve (its models).
SCHEMA is llama-swap's config-schema.json, PROGRAM is Prometheus' promtool. What is not there is not checked, and said.
Not part of CI.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "emit"))

from oomph.answers.plan import plan
from oomph.emit import emit

Check = Callable[[str], None]
CASES = importlib.import_module("test_decisions").CASES


def skypilot() -> Check:
    import jsonschema  # type: ignore[import-untyped]
    from sky.utils import schemas

    task, resources = schemas.get_task_schema(), schemas.get_resources_schema()

    def check(text: str) -> None:
        body = yaml.safe_load(text)
        jsonschema.validate(body["resources"], resources)
        jsonschema.validate(body, task)

    return check


def kserve() -> Check:
    """The generated models know every field: one that they do not have is dropped, and noticed."""
    from kserve import V1beta1PredictorSpec

    known = set(V1beta1PredictorSpec.attribute_map.values())

    def check(text: str) -> None:
        for document in yaml.safe_load_all(text):
            unknown = set(document["spec"]["predictor"]) - known
            assert not unknown, unknown

    return check


def json_schema(path: str) -> Check:
    import jsonschema

    schema = json.loads(Path(path).read_text())
    return lambda text: jsonschema.validate(yaml.safe_load(text), schema)


def promtool(program: str) -> Check:
    def check(text: str) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(text)
            file.flush()
            subprocess.run([program, "check", "rules", file.name], check=True, capture_output=True)

    return check


def checks(arguments: Any) -> dict[str, Check]:
    found: dict[str, Check] = {}
    for form, build in (("skypilot", skypilot), ("kserve", kserve)):
        try:
            found[form] = build()
        except ImportError as error:
            print(f"{form}: not checked, {error}")
    if arguments.llama_swap:
        found["llama-swap"] = json_schema(arguments.llama_swap)
    if arguments.promtool:
        found["prometheus"] = promtool(arguments.promtool)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama-swap", default="")
    parser.add_argument("--promtool", default="")
    wrong = 0
    for form, check in checks(parser.parse_args()).items():
        valid = 0
        for command, gpu in CASES:
            try:
                check(emit(plan(command, gpu=gpu, advise=False), form))
                valid += 1
            except Exception as error:
                print(f"{form}: {command}: {str(error)[:300]}")
        wrong += len(CASES) - valid
        print(f"{form}: {valid} of {len(CASES)} valid")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
