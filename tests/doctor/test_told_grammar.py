# ruff: noqa: E501 - a text is a line
"""How sentences are built, whatever their words: what is denied, what was left out, which figures are compared."""

import pytest
from healthy_logs import LOGS

import oomph
from oomph.logs.attempts import read_attempts
from oomph.logs.claims import read_claims
from oomph.logs.documents import Sentence, clauses


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("well", "Nothing has been killed so far."),
        ("well", "None of them was ever terminated."),
        ("well", "Since then we have not had a single OOM."),
        ("well", "Bisher ist niemand abgestürzt."),
        ("failed", "Nach rund 40 Minuten antwortet er nicht mehr."),
        ("failed", "Mit dem neuen Image funktioniert gar nichts."),
        ("well", "Es läuft durch, nur etwas langsam."),
        ("failed", "the executor can't reserve pages for its pool"),
        ("well", "The error page is blue."),
        ("failed", "Since Monday this deployment is in CrashLoopBackOff."),
        ("failed", "宿主机内存被吃光"),
    ],
)
def test_what_is_denied_did_not_happen(outcome: str, text: str) -> None:
    outcomes = [claim.outcome for claim in read_claims((Sentence(1, text),))]
    assert (outcome in outcomes) and ("failed" in outcomes) is (outcome == "failed"), outcomes


@pytest.mark.parametrize(
    ("topic", "result", "without", "text"),
    [
        ("--enable-eplb", "helped", True, "--enable-eplb makes it run out of memory. Remove it and all is fine."),
        ("--enable-lora", "helped", True, "With --enable-lora it OOMs; leave that option away and it is fine."),
        (
            "--enable-lora",
            "helped",
            True,
            "Mit --enable-lora stirbt der Start am Speicher. Lasse ich das weg, funktioniert alles.",
        ),
        ("--enable-lora", "helped", True, "加 --enable-lora 就爆显存,拿掉就好了。"),
        ("graphs", "helped", False, "Turning graphs off gets us going."),
        ("sequences", "in vain", False, "Lowering --max-num-seqs to 8 fixes nothing."),
    ],
)
def test_what_was_left_out_is_not_advised(topic: str, result: str, without: bool, text: str) -> None:
    parts = [Sentence(number, part) for number, part in enumerate(text.split(". "))]
    assert (topic, result, without) in [(one.topic, one.result, one.without) for one in read_attempts(parts)]


def test_another_setting_that_works_cures_not_the_one_that_fails() -> None:
    (one,) = read_attempts([Sentence(1, "With --enable-lora it OOMs, with --max-num-seqs 8 it works.")])
    assert (one.topic, one.result) == ("sequences", "helped")


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        # a share of the whole card, and less that was free: the check before anything is loaded
        (
            "startup_free_memory",
            "vllm refuses: it wanted 21.6 GiB of the 23.5 that exist, but only 20.9 were unoccupied.",
        ),
        ("startup_free_memory", "vLLM bricht ab: 72,9 GiB verlangt, 62,1 GiB frei, die Karte hat 79,2 GiB."),
        # a cache for so many tokens, and less that is there
        (
            "kv_check",
            "vLLM: für 131.072 Tokens bräuchte man 10 GiB Cache, vorhanden sind 7,4 GiB. Danach beendet er sich.",
        ),
        ("kv_check", "vllm loads, measures, and reports a negative number of GiB for the key-value cache and stops."),
        ("kv_alloc", "llama-server: weights are in, the buffers for keys and values do not fit at -c 200000."),
        # where less of it was the cure
        (
            "cudagraph_capture",
            "vllm counts up to batch size 19 and the device has nothing left. Turning graphs off gets us going.",
        ),
        (
            "runtime_request",
            "vLLM: der Dienst lief, bis ein Kunde einen vierten Adapter nachlud. Dabei ging der GPU-Speicher aus.",
        ),
    ],
)
def test_figures_and_cures_tell_the_stage(stage: str, text: str) -> None:
    answer = oomph.explain(f"{text}\n", plan=False)
    assert answer.failed and answer.stages[0].stage == stage, answer.stages


@pytest.mark.parametrize(
    "text",
    [
        "Reicht eine 4090 für Qwen3-14B-AWQ mit 32k Kontext, oder läuft mir da der Speicher voll? Noch habe ich nichts gestartet.",
        "I haven't bought the card yet. vLLM would run out of memory with 64 users on 24 GB, they say.",
        "How should I set oom_score_adj for the vLLM container? Nothing has been killed so far.",
        "我还没买显卡,担心 vllm 跑 32B 显存不足。",
    ],
)
def test_what_somebody_plans_did_not_fail(text: str) -> None:
    assert oomph.explain(f"{text}\n", plan=False).failed is None


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize(
    "sentence",
    ["Nach rund 40 Minuten antwortet er nicht mehr.", "Since Monday this deployment is in CrashLoopBackOff."],
)
def test_no_all_clear_over_a_failure_that_is_built_otherwise(name: str, sentence: str) -> None:
    for text in (f"{sentence}\n\n{LOGS[name]}", f"{LOGS[name]}\n\n{sentence}\n"):
        assert oomph.explain(text, plan=False).failed is not False


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("H03", "vllm: Exit Status 137 some hours after the start, the box has 16 GB of RAM."),
        ("D01", "I start it again and vllm says: Free memory on device is less than desired GPU memory utilization."),
        ("N16", "vllm 0.9 says that FooForCausalLM is not among the architectures it supports, and stops."),
        ("M02", "model.generate in plain transformers on a 3060: OutOfMemoryError at 6k tokens of context."),
        (
            "K10",
            "vLLM with num_gpu_blocks_override=20000 fails when it creates the KV tensors, torch.OutOfMemoryError.",
        ),
        ("B02", "llama-server: the model is in, the compute buffer is refused, no room."),
        ("P01", "vLLM: die Gewichte sind geladen, beim Messlauf mit Attrappen-Bildern reicht der Speicher nicht mehr."),
    ],
)
def test_the_cause_of_what_is_said_otherwise(rule: str, text: str) -> None:
    answer = oomph.explain(f"{text}\n", plan=False)
    assert answer.failed and answer.cause.id == rule, (answer.cause.id, answer.stages)


def test_a_sentence_that_names_a_build_step_is_no_line_of_it() -> None:
    answer = oomph.explain(
        "trtllm-build für ein 70B-Modell bricht ab, der Builder bekommt keinen Grafikspeicher mehr.\n", plan=False
    )
    assert answer.failed and answer.cause.id == "M02" and answer.question is None
    assert {one.stage for one in answer.stages} <= {"other", "weights_load", "host_ram"}


def test_two_attempts_with_tracebacks_get_two_answers() -> None:
    text = (
        "First attempt, util 0.80:\nValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
        'Second attempt, util 0.97:\n  File "/usr/lib/python3/vllm/v1/worker/gpu_model_runner.py", line 2480, in capture_model\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB.\n"
    )
    answer = oomph.explain(text, plan=False)
    assert (answer.stage, [one.stage for one in answer.also]) == ("kv_check", ["cudagraph_capture"])
    quoted = (
        'With -ngl 99: "alloc_tensor_range: failed to allocate CUDA0 buffer of size 18686803968 / llama_model_load: error loading model: unable to allocate CUDA0 buffer"\n'
        'With -ngl 40 it gets further but "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache".\n'
    )
    answer = oomph.explain(quoted, plan=False)
    assert [answer.stage, *(one.stage for one in answer.also)] == ["weights_load", "kv_alloc"]


def test_a_parenthesis_is_no_clause_of_its_own_to_a_named_error() -> None:
    text = "vllm stops at once: the NVIDIA driver (535) on the node is too old for it. No GPU memory was touched."
    assert oomph.explain(f"{text}\n", plan=False).cause.id == "N07"
    assert clauses("it stops (at once)") == ["it stops", "at once"]


ASSERTS_NOTHING = (
    "[RFC]: warn before a start whose graphs would not fit, so that an OOM can be prevented",
    "If you get an out-of-memory error while the graphs are captured in vLLM, pass --enforce-eager.",
    "Kann ein 30B-Modell in vLLM auf einer Karte mit 24 GB laufen, oder wird der Speicher zu klein?",
    "Quel est le bon gpu_memory_utilization pour que vLLM ne plante pas par manque de mémoire ?",
    "¿Cómo elijo max_model_len en vLLM para no quedarme sin memoria con prompts largos?",
    "Como escolher gpu_memory_utilization no vLLM para não ficar sem memória com muitos usuários?",
    "vLLM で長いプロンプトを使うとき、メモリ不足にならないようにするにはどの設定がいいですか?",
    "怎样设置 max_num_seqs 才能避免 vLLM 在高并发时显存不足?",
)


@pytest.mark.parametrize("text", ASSERTS_NOTHING)
def test_what_asserts_nothing_is_no_failure(text: str) -> None:
    assert oomph.explain(f"{text}\n", plan=False).failed is not True


@pytest.mark.parametrize(
    "text",
    [
        "If I send two images to vLLM it runs out of memory.",
        "Why does vLLM run out of memory while it captures its graphs?",
        "Is it normal that vLLM gets an OOM when it captures the graphs on my 3090?",
        "vLLM se queda sin memoria al cargar los pesos, ¿qué puedo hacer?",
        "vLLM plante par manque de mémoire pendant la capture des graphes CUDA, que faire ?",
        "vLLM は CUDA グラフのキャプチャ中にメモリ不足で落ちます。どうすればいいですか?",
        "vLLM 加载权重时显存不足,应该怎么办?",
    ],
)
def test_a_question_about_what_happened_tells_of_it(text: str) -> None:
    assert oomph.explain(f"{text}\n", plan=False).failed is True


@pytest.mark.parametrize(
    "text",
    [
        "On wake_up() it can't map its memory back since the trainer still holds 50 GiB.",
        "Der Prozess bekommt seine 12 GiB nicht.",
        "The engine never came back after the third document.",
    ],
)
def test_a_text_that_speaks_of_a_failure_is_not_refused(text: str) -> None:
    oomph.explain(f"{text}\n", plan=False)
