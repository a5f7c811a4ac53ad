"""Every folder under engines/ fills the protocol, and knowing all of them costs nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from inspect import Parameter, formatannotation, signature
from pathlib import Path

import pytest

from oomph.engines.protocol import EngineProtocol, Part
from oomph.engines.registry import NAMES, all_engines, engine_named, name_of
from oomph.errors import CommandError

FOLDER = Path(__file__).parents[2] / "src" / "oomph" / "engines"


def test_every_folder_is_registered() -> None:
    folders = {path.name for path in FOLDER.iterdir() if (path / "__init__.py").exists()} - {"common"}
    assert folders == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_fills_the_protocol(name: str) -> None:
    one = engine_named(name)
    assert EngineProtocol in type(one).__mro__ and one.name == name
    assert one.title and one.programs and one.log_rows()
    assert one.newest() == "" or one.nearest(one.newest())[0] == one.newest()


def _type(parameter: Parameter) -> str:
    """As it is written in the source, without the modules of its names."""
    annotation = parameter.annotation
    return re.sub(r"\w+\.", "", annotation if isinstance(annotation, str) else formatannotation(annotation))


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_an_engine_are_there_and_take_what_the_protocol_gives(name: str) -> None:
    engine = engine_named(name)
    rows = {
        field: value for kind in type(engine).__mro__ for field, value in vars(kind).items() if isinstance(value, Part)
    }
    assert rows
    for field in rows:
        value = getattr(import_module(f"oomph.{rows[field].module}"), rows[field].name)
        if not callable(value):
            continue  # the answer itself
        theirs = list(signature(value).parameters.values())
        ours = list(signature(getattr(EngineProtocol, field)).parameters.values())[1:]
        assert [p.name for p in theirs[: len(ours)]] == [p.name for p in ours], field
        pairs = list(zip(ours, theirs, strict=False))
        assert all(_type(o) in (_type(t), _type(t).split(" | ")[0]) for o, t in pairs), field
        assert all(p.default is not Parameter.empty for p in theirs[len(ours) :]), field
        assert all(o.default in (Parameter.empty, t.default) for o, t in pairs), field


def test_no_two_engines_share_a_name() -> None:
    for words in ("programs", "modules", "images", "frame_paths"):
        everything = [word for one in all_engines() for word in getattr(one, words)]
        assert len(everything) == len(set(everything)), words
    spellings = [word for one in all_engines() for word in (one.name, *one.aliases)]
    assert len(spellings) == len(set(spellings))


def test_spellings() -> None:
    assert name_of("llama.cpp") == "llamacpp" and name_of("vLLM") == "vllm" and name_of("nothing") == ""
    with pytest.raises(CommandError):
        engine_named("nothing")


def test_naming_all_engines_imports_none_of_their_parts() -> None:
    code = "import sys; from oomph.engines.registry import all_engines; all_engines(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    below = [m for m in loaded if m.startswith(("oomph.engines.", "oomph.facts.", "oomph.commands", "oomph.answers"))]
    allowed = {"oomph.engines.values", "oomph.engines.protocol", "oomph.engines.registry"}
    allowed |= {f"oomph.engines.{name}{end}" for name in NAMES for end in ("", ".engine")}
    assert not set(below) - allowed
