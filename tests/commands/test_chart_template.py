"""A Helm template with its values: what values decide is put in, what they do not say stays and is asked for."""

import pytest
from hypothesis import given, strategies as st

from oomph.commands.manifests.chart_template import named_templates, rendered

VALUES = {"model": "Qwen/Qwen3-8B", "extra": ["--dtype", "bfloat16"], "on": True, "off": False, "size": {"tensor": 2}}


def filled(text: str, helpers: str = "") -> str:
    return rendered(text, VALUES, named_templates(helpers), {"name": "llm", "appVersion": "v0.30.0"})


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ .Values.model }}", "Qwen/Qwen3-8B"),
        ("a: {{ .Values.model | quote }}", 'a: "Qwen/Qwen3-8B"'),
        ("{{ .Values.port | default 8000 }}", "8000"),
        ("{{ .Values.size.tensor | int }}", "2"),
        ('{{ printf "--model=%s" .Values.model }}', "--model=Qwen/Qwen3-8B"),
        ("{{ .Chart.AppVersion }}", "v0.30.0"),
        ("{{ if .Values.on }}yes{{ else }}no{{ end }}", "yes"),
        ("{{ if .Values.off }}yes{{ else if .Values.on }}second{{ else }}no{{ end }}", "second"),
        ("{{ if and .Values.on (not .Values.off) }}both{{ end }}", "both"),
        ('{{ if eq .Values.model "x" }}x{{ else }}y{{ end }}', "y"),
        ("args:\n{{- range .Values.extra }}\n- {{ . }}\n{{- end }}", "args:\n- --dtype\n- bfloat16"),
        ("{{ range $key, $its := .Values.size }}{{ $key }}={{ $its }}{{ end }}", "tensor=2"),
        ("{{- with .Values.size }}{{ .tensor }}{{ end }}", "2"),
        ("{{ $m := .Values.model }}{{ $m }}", "Qwen/Qwen3-8B"),
        ("x:{{ toYaml .Values.extra | nindent 2 }}", "x:\n  - --dtype\n  - bfloat16"),
        ("{{/* a remark */}}x", "x"),
        # what nobody says stays as it is written, so that it is asked for by name
        ("{{ .Values.unknown }}", "{{ .Values.unknown }}"),
        ("- {{ include \"chart.args\" . }}", "- {{ include \"chart.args\" . }}"),
        ("labels: {{ include \"chart.labels\" . }}", "labels: "),
        ("{{ if .Values.on }}no end", "{{ if .Values.on }}no end"),
    ],
)  # fmt: skip
def test_values_fill_a_template(template: str, text: str) -> None:
    assert filled(template) == text


def test_a_helper_beside_it_is_included() -> None:
    helpers = '{{- define "chart.args" -}}\n--model {{ .Values.model }}\n{{- end }}\n{{ define "other" }}x{{ end }}'
    assert filled('{{ include "chart.args" . }} {{ template "other" }}', helpers) == "--model Qwen/Qwen3-8B x"


def test_a_helper_that_includes_itself_stays() -> None:
    assert "include" in filled('{{ include "a" . }}', '{{ define "a" }}{{ include "a" . }}{{ end }}')


@given(st.text(alphabet="{}-|. ()$\"'ifendrangewithelse.Values:=0\n", max_size=200))
def test_no_template_ends_in_an_error(text: str) -> None:
    assert isinstance(filled(text), str)
