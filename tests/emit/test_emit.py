"""What is emitted is valid, says what it says for a reason, and reads back to the same deployment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

import making
from oomph.answers.plan import plan, run
from oomph.commands import parse_command, parse_text, read_deployments
from oomph.emit import emit
from oomph.emit.kubernetes import object_name
from oomph.engines.vllm.emit import host_needs as host
from oomph.engines.vllm.engine import ENGINE
from oomph.errors import CommandError, OomphError
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.plan import Plan
from oomph.search.fit import fit
from oomph.units import GIB, MIB

COMMANDS = (
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192 --no-enable-prefix-caching", "RTX 4090", NEWEST),
    ("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8192 --max-num-seqs 4", "2x RTX 5070 Ti", "0.21.0"),
    (
        "vllm serve cyankiwi/Qwen3.6-27B-AWQ-INT4 --max-model-len 16384 --max-num-seqs 4 --language-model-only "
        """--speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'""",
        "RTX 5090",
        NEWEST,
    ),
    ("VLLM_USE_V1=1 vllm serve Qwen/Qwen3-8B --cpu-offload-gb 4 --max-model-len 4096", "RTX 4090", "0.15.0"),
)
QUANTITY = re.compile(r"\d+(?:Ki|Mi|Gi|Ti|m)?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@pytest.fixture(params=COMMANDS, ids=lambda c: c[0].split("serve ")[1][:30])
def planned(request: Any) -> Plan:
    command, gpu, version = request.param
    made = plan(command, gpu=gpu, engine=f"vllm=={version}")
    assert made.fits, made.verdict
    return made


def same(text: str, made: Plan, name: str = "") -> None:
    """Parsed again it is the same deployment, and it fits."""
    found = parse_text(text, name=name)
    assert found
    for again in found.values():
        assert again.model == made.deployment.model
        extra = {"nnodes", "master_addr", "node_rank", "headless", "distributed_executor_backend"}
        assert {k: v for k, v in again.flags.items() if k not in extra} == made.deployment.flags
        assert again.engine.version == made.deployment.engine.version
        assert again.environment.get("VLLM_USE_V1") == made.deployment.environment.get("VLLM_USE_V1")
        assert again.gpu_count in (0, len(made.ranks))


def test_command_reads_back(planned: Plan) -> None:
    again = parse_command([emit(planned, "command").strip()], engine=planned.deployment.engine)
    assert again.flags == planned.deployment.flags
    assert again.model == planned.deployment.model


def test_config_reads_back(planned: Plan, tmp_path: Any) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(emit(planned, "yaml"))
    again = parse_command(["vllm", "serve", "--config", str(path)], engine=planned.deployment.engine)
    assert again.flags == planned.deployment.flags
    assert again.model == planned.deployment.model


def test_docker_reads_back(planned: Plan) -> None:
    text = emit(planned, "docker")
    assert f"--gpus {len(planned.ranks)}" in text
    same(text, planned)


def test_compose(planned: Plan) -> None:
    text = emit(planned, "compose")
    same(text, planned, "compose.yaml")
    service = yaml.safe_load(text)["services"]["vllm"]
    known = {
        "image", "entrypoint", "command", "environment", "ports", "volumes", "healthcheck", "restart", "deploy",
        "shm_size",
    }  # fmt: skip
    assert set(service) <= known
    assert all(isinstance(word, str) for word in service["command"])
    assert set(service["healthcheck"]) <= {"test", "interval", "timeout", "start_period", "retries"}
    reserved = service["deploy"]["resources"]["reservations"]
    assert reserved["devices"] == [{"driver": "nvidia", "count": len(planned.ranks), "capabilities": ["gpu"]}]
    assert re.fullmatch(r"\d+G", reserved["memory"])
    assert ("shm_size" in service) == (len(planned.ranks) > 1)


def check_pod(pod: dict[str, Any], gpus: int) -> None:
    assert set(pod) <= {"containers", "volumes", "nodeSelector"}
    volumes = {v["name"] for v in pod["volumes"]}
    for container in pod["containers"]:
        assert NAME.fullmatch(container["name"])
        assert all(isinstance(word, str) for word in [*container["command"], *container["args"]])
        assert {m["name"] for m in container["volumeMounts"]} <= volumes
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert limits["nvidia.com/gpu"] == requests["nvidia.com/gpu"] == str(gpus)
        for amount in (*limits.values(), *requests.values()):
            assert isinstance(amount, str)
            assert QUANTITY.fullmatch(amount)
        for env in container["env"]:
            assert ("value" in env) != ("valueFrom" in env)
            assert isinstance(env.get("value", ""), str)
        ports = {p["name"] for p in container.get("ports", ())}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports
    for value in pod.get("nodeSelector", {}).values():
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


def test_kubernetes(planned: Plan) -> None:
    text = emit(planned, "kubernetes")
    same(text, planned, "manifest.yaml")
    deployment, service = yaml.safe_load_all(text)
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    assert NAME.fullmatch(deployment["metadata"]["name"])
    spec = deployment["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    check_pod(spec["template"]["spec"], len(planned.ranks))


def test_lws(planned: Plan) -> None:
    text = emit(planned, "lws", per_node=1)
    leader_set, service = yaml.safe_load_all(text)
    assert (leader_set["apiVersion"], leader_set["kind"]) == ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    template = leader_set["spec"]["leaderWorkerTemplate"]
    assert template["size"] == len(planned.ranks)
    for part in ("leaderTemplate", "workerTemplate"):
        check_pod(template[part]["spec"], 1)
    assert service["spec"]["selector"].items() <= template["leaderTemplate"]["metadata"]["labels"].items()
    leader = template["leaderTemplate"]["spec"]["containers"][0]
    worker = template["workerTemplate"]["spec"]["containers"][0]
    if len(planned.ranks) > 1:
        assert "--headless" in worker["args"]
        assert "--headless" not in leader["args"]
        assert worker["args"][worker["args"].index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"
        assert not worker.get("ports")


def test_lws_with_ray_where_the_release_has_no_nnodes() -> None:
    made = plan("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 4096", gpu="2x RTX 4090", engine="vllm==0.10.2")
    template = next(yaml.safe_load_all(emit(made, "lws", per_node=1)))["spec"]["leaderWorkerTemplate"]
    leader, worker = (template[f"{who}Template"]["spec"]["containers"][0] for who in ("leader", "worker"))
    assert leader["command"] == worker["command"] == ["sh", "-c"]
    assert leader["args"][0].startswith("ray start --head")
    assert "--distributed-executor-backend ray" in leader["args"][0]
    assert worker["args"][0] == "exec ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"


def test_uneven_nodes_are_refused() -> None:
    made = plan("vllm serve Qwen/Qwen3-8B -tp 4 --max-model-len 4096", gpu="4x RTX 4090")
    three = replace(made, ranks=made.ranks[:3])
    with pytest.raises(CommandError, match="evenly"):
        emit(three, "lws", per_node=2)


def test_shared_memory_is_the_queues() -> None:
    """multiproc_executor.py and shm_broadcast.py (0.21.0): 10 chunks of 16 MiB, 10 of 24 MiB a worker, 6 of 4 MiB."""
    made = plan("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 4096", gpu="2x RTX 4090", engine="vllm==0.21.0")
    found = host(made)
    assert found.shm[0].bytes == (160 + 2 * 240 + 24) * MIB
    assert found.shm[1].bytes == GIB
    alone = host(plan("vllm serve Qwen/Qwen3-8B --max-model-len 4096", gpu="RTX 4090"))
    assert not alone.shm


def test_offloaded_weights_are_counted() -> None:
    made = plan("vllm serve Qwen/Qwen3-8B --cpu-offload-gb 4 --max-model-len 4096", gpu="RTX 4090")
    without = plan("vllm serve Qwen/Qwen3-8B --max-model-len 4096", gpu="RTX 4090")
    assert host(made).memory_gib - host(without).memory_gib in (8, 9)


def test_what_does_not_fit_is_not_emitted() -> None:
    made = plan("vllm serve meta-llama/Llama-3.1-8B-Instruct", gpu="T4")
    for form in ENGINE.emit_forms:
        with pytest.raises(OomphError):
            emit(made, form)


@pytest.mark.parametrize("model", ["a/B_c.D-" + "x" * 100, "///", "ünï/…", "Qwen/Qwen3-8B"])
def test_object_names_are_names(model: str) -> None:
    assert NAME.fullmatch(object_name(Deployment(Engine("vllm", NEWEST), model, {}, ())))


def test_planned_again_it_fits(planned: Plan) -> None:
    again = next(iter(parse_text(emit(planned, "kubernetes"), name="m.yaml").values()))
    assert run(replace(again, gpus=planned.deployment.gpus), None).fits


@pytest.mark.parametrize("form", ["command", "yaml", "docker", "compose", "kubernetes"])
def test_a_folder_keeps_its_path(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container it is a volume; everywhere else it is called as the user calls it."""
    making.folder(tmp_path / "models" / "my-llama", making.LLAMA, making.tensors_of(making.LLAMA))
    (tmp_path / "models" / "my-llama" / "tokenizer.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    pick = fit("./models/my-llama", "RTX 4090", context=2048).pick
    assert pick is not None
    text = emit(pick.plan, form)
    if form in ("command", "yaml"):
        assert "./models/my-llama" in text
    else:
        assert str(tmp_path / "models" / "my-llama") in text and "/models/my-llama" in text
        (entry,) = read_deployments([text])
        assert entry.deployment is not None and entry.deployment.model in (
            "/models/my-llama",
            str(tmp_path / "models" / "my-llama"),
        )


def test_cards_of_another_maker_get_the_image_and_the_devices_that_they_need() -> None:
    """What is written is read again: an image without code for the cards would be refused."""
    answer = plan("vllm serve Qwen/Qwen3-8B", gpu="2x MI300X", engine="vllm==0.21.0", advise=False)
    run_words, service = emit(answer, "docker"), yaml.safe_load(emit(answer, "compose"))["services"]["vllm"]
    assert "--gpus" not in run_words and "--device /dev/kfd" in run_words and "--group-add video" in run_words
    assert service["devices"] == ["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"] and "vllm-openai-rocm" in service["image"]
    assert "amd.com/gpu: '1'" in emit(answer, "kubernetes") and "nvidia" not in emit(answer, "kubernetes")
    for form in ("docker", "compose", "kubernetes"):
        (entry,) = read_deployments([emit(answer, form)])
        assert entry.deployment is not None and entry.deployment.image_vendor == "amd"
    with pytest.raises(OomphError, match="NVIDIA's cards"):
        emit(answer, "dra")
    for command, gpu in (
        ("vllm serve Qwen/Qwen3-0.6B --max-model-len 2048", "Arc B580"),
        ("sglang serve Qwen/Qwen3-8B", "MI300X"),
    ):
        with pytest.raises(OomphError, match="for these cards"):
            emit(plan(command, gpu=gpu, advise=False), "docker")
