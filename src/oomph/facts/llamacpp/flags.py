"""llama-server's and llama-cli's flags: those that decide memory by field, the others by how many words they take.

common/arg.cpp (b11739). Old spellings stay: people paste old commands.
"""

from typing import Final, Literal

from msgspec import Struct

Kind = Literal[
    "int", "text", "true", "false", "choice", "layers", "numbers", "overrides", "cpu_moe", "n_cpu_moe", "n_cpu_ffn",
    "onoff", "metadata",
]  # fmt: skip


class Flag(Struct, frozen=True):
    field: str
    kind: Kind
    names: tuple[str, ...]
    environment: str = ""
    choices: tuple[str, ...] = ()


ROWS: Final = (
    Flag("model", "text", ("-m", "--model"), "LLAMA_ARG_MODEL"),
    Flag("hf_repo", "text", ("-hf", "-hfr", "--hf-repo"), "LLAMA_ARG_HF_REPO"),
    Flag("hf_file", "text", ("-hff", "--hf-file"), "LLAMA_ARG_HF_FILE"),
    Flag("model_url", "text", ("-mu", "--model-url"), "LLAMA_ARG_MODEL_URL"),
    Flag("ctx_size", "int", ("-c", "--ctx-size"), "LLAMA_ARG_CTX_SIZE"),
    Flag("batch_size", "int", ("-b", "--batch-size"), "LLAMA_ARG_BATCH"),
    Flag("ubatch_size", "int", ("-ub", "--ubatch-size"), "LLAMA_ARG_UBATCH"),
    Flag("parallel", "int", ("-np", "--parallel"), "LLAMA_ARG_N_PARALLEL"),
    Flag("kv_unified", "true", ("-kvu", "--kv-unified"), "LLAMA_ARG_KV_UNIFIED"),
    Flag("kv_unified", "false", ("-no-kvu", "--no-kv-unified")),
    Flag("n_gpu_layers", "layers", ("-ngl", "--gpu-layers", "--n-gpu-layers"), "LLAMA_ARG_N_GPU_LAYERS"),
    Flag("split_mode", "choice", ("-sm", "--split-mode"), "LLAMA_ARG_SPLIT_MODE", ("none", "layer", "row", "tensor")),
    Flag("tensor_split", "numbers", ("-ts", "--tensor-split"), "LLAMA_ARG_TENSOR_SPLIT"),
    Flag("main_gpu", "int", ("-mg", "--main-gpu"), "LLAMA_ARG_MAIN_GPU"),
    Flag("device", "text", ("-dev", "--device"), "LLAMA_ARG_DEVICE"),
    Flag("override_tensor", "overrides", ("-ot", "--override-tensor"), "LLAMA_ARG_OVERRIDE_TENSOR"),
    Flag("override_tensor", "cpu_moe", ("-cmoe", "--cpu-moe"), "LLAMA_ARG_CPU_MOE"),
    Flag("override_tensor", "n_cpu_moe", ("-ncmoe", "--n-cpu-moe"), "LLAMA_ARG_N_CPU_MOE"),
    Flag("override_tensor", "n_cpu_ffn", ("-ncffn", "--n-cpu-ffn"), "LLAMA_ARG_N_CPU_FFN"),
    Flag("flash_attn", "onoff", ("-fa", "--flash-attn"), "LLAMA_ARG_FLASH_ATTN", ("on", "off", "auto")),
    Flag("cache_type_k", "text", ("-ctk", "--cache-type-k"), "LLAMA_ARG_CACHE_TYPE_K"),
    Flag("cache_type_v", "text", ("-ctv", "--cache-type-v"), "LLAMA_ARG_CACHE_TYPE_V"),
    Flag("swa_full", "true", ("--swa-full",), "LLAMA_ARG_SWA_FULL"),
    Flag("kv_offload", "false", ("-nkvo", "--no-kv-offload"), "LLAMA_ARG_NO_KV_OFFLOAD"),
    Flag("kv_offload", "true", ("-kvo", "--kv-offload")),
    Flag("op_offload", "false", ("--no-op-offload",), "LLAMA_ARG_NO_OP_OFFLOAD"),
    Flag("op_offload", "true", ("--op-offload",)),
    Flag("repack", "false", ("-nr", "--no-repack"), "LLAMA_ARG_NO_REPACK"),
    Flag("repack", "true", ("--repack",)),
    Flag("mmap", "false", ("--no-mmap",), "LLAMA_ARG_NO_MMAP"),
    Flag("mmap", "true", ("--mmap",)),
    Flag("mlock", "true", ("--mlock",), "LLAMA_ARG_MLOCK"),
    Flag("load_mode", "text", ("--load-mode",), "LLAMA_ARG_LOAD_MODE"),  # b10884 and later, for the four above
    Flag("kv_unified_per_slot", "int", ("--kv-unified-per-slot",), "LLAMA_ARG_KV_UNIFIED_PER_SLOT"),
    Flag("moe_cache", "int", ("--moe-cache-mib",), "LLAMA_ARG_MOE_CACHE_MIB"),
    Flag("mmproj", "text", ("-mm", "--mmproj"), "LLAMA_ARG_MMPROJ"),
    Flag("mmproj_url", "text", ("-mmu", "--mmproj-url"), "LLAMA_ARG_MMPROJ_URL"),
    Flag("no_mmproj", "true", ("--no-mmproj", "--no-mmproj-auto"), "LLAMA_ARG_NO_MMPROJ"),
    Flag("no_mmproj", "false", ("--mmproj-auto",)),
    Flag("mmproj_offload", "false", ("--no-mmproj-offload",), "LLAMA_ARG_NO_MMPROJ_OFFLOAD"),
    Flag("mmproj_offload", "true", ("--mmproj-offload",)),
    Flag("model_draft", "text", ("-md", "--model-draft", "--spec-draft-model"), "LLAMA_ARG_MODEL_DRAFT"),
    Flag("hf_repo_draft", "text", ("-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf"), "LLAMA_ARG_HFD_REPO"),
    Flag("n_gpu_layers_draft", "layers", ("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"),
         "LLAMA_ARG_N_GPU_LAYERS_DRAFT"),
    Flag("ctx_size_draft", "int", ("-cd", "--ctx-size-draft"), "LLAMA_ARG_CTX_SIZE_DRAFT"),
    Flag("cache_type_k_draft", "text", ("-ctkd", "--cache-type-k-draft", "--spec-draft-type-k")),
    Flag("cache_type_v_draft", "text", ("-ctvd", "--cache-type-v-draft", "--spec-draft-type-v")),
    Flag("device_draft", "text", ("-devd", "--device-draft", "--spec-draft-device")),
    Flag("override_tensor_draft", "overrides", ("-otd", "--override-tensor-draft", "--spec-draft-override-tensor")),
    Flag("override_tensor_draft", "cpu_moe", ("-cmoed", "--cpu-moe-draft", "--spec-draft-cpu-moe"),
         "LLAMA_ARG_SPEC_DRAFT_CPU_MOE"),
    Flag("override_tensor_draft", "n_cpu_moe",
         ("-ncmoed", "--n-cpu-moe-draft", "--spec-draft-n-cpu-moe", "--spec-draft-ncmoe"),
         "LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE"),
    Flag("draft_max", "int", ("--draft-max", "--draft", "--draft-n", "--spec-draft-n-max"), "LLAMA_ARG_DRAFT_MAX"),
    Flag("spec_type", "text", ("--spec-type",), "LLAMA_ARG_SPEC_TYPE"),
    Flag("spec_default", "true", ("--spec-default",)),
    Flag("ngram_mod_max", "int", ("--spec-ngram-mod-n-max",)),
    Flag("ngram_simple_m", "int", ("--spec-ngram-simple-size-m",)),
    Flag("ngram_map_k_m", "int", ("--spec-ngram-map-k-size-m",)),
    Flag("ngram_map_k4v_m", "int", ("--spec-ngram-map-k4v-size-m",)),
    Flag("fit", "onoff", ("-fit", "--fit"), "LLAMA_ARG_FIT", ("on", "off")),
    Flag("fit_target", "numbers", ("-fitt", "--fit-target"), "LLAMA_ARG_FIT_TARGET"),
    Flag("fit_ctx", "int", ("-fitc", "--fit-ctx"), "LLAMA_ARG_FIT_CTX"),
    Flag("cache_ram", "int", ("-cram", "--cache-ram"), "LLAMA_ARG_CACHE_RAM"),
    Flag("ctx_checkpoints", "int", ("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"), "LLAMA_ARG_CTX_CHECKPOINTS"),
    Flag("cont_batching", "true", ("-cb", "--cont-batching"), "LLAMA_ARG_CONT_BATCHING"),
    Flag("cont_batching", "false", ("-nocb", "--no-cont-batching"), "LLAMA_ARG_NO_CONT_BATCHING"),
    Flag("context_shift", "true", ("--context-shift",), "LLAMA_ARG_CONTEXT_SHIFT"),
    Flag("context_shift", "false", ("--no-context-shift",), "LLAMA_ARG_NO_CONTEXT_SHIFT"),
    Flag("cache_idle_slots", "true", ("--cache-idle-slots",), "LLAMA_ARG_CACHE_IDLE_SLOTS"),
    Flag("cache_idle_slots", "false", ("--no-cache-idle-slots",), "LLAMA_ARG_NO_CACHE_IDLE_SLOTS"),
    Flag("slot_prompt_similarity", "text", ("-sps", "--slot-prompt-similarity")),
    Flag("pooling", "choice", ("--pooling",), "LLAMA_ARG_POOLING", ("none", "mean", "cls", "last", "rank")),
    Flag("embeddings", "true", ("--embedding", "--embeddings"), "LLAMA_ARG_EMBEDDINGS"),
    Flag("reranking", "true", ("--rerank", "--reranking"), "LLAMA_ARG_RERANKING"),
    Flag("override_kv", "metadata", ("--override-kv",)),
)  # fmt: skip

# Flags without a word behind them, that do not decide memory; all others take one.
SWITCHES: Final = frozenset(
    ("-v", "--verbose", "--log-verbose", "--jinja", "--no-jinja", "--no-webui", "--webui", "--offline", "--metrics",
     "--props", "--slots", "--no-slots", "--no-warmup",
     "--warmup", "--log-disable", "--no-log-prefix", "--log-prefix",
     "--no-log-timestamps", "--log-timestamps", "--log-colors", "--no-perf", "--perf", "-e", "--escape", "--no-escape",
     "--ignore-eos", "-cnv", "--conversation", "-no-cnv", "--no-conversation", "-st", "--single-turn", "-i",
     "--interactive", "--color", "--check-tensors", "--no-host",
     "-sp", "--special", "--spm-infill", "--cpu-strict", "--prefill-assistant", "--no-prefill-assistant",
     "--no-ui", "--ui", "-h", "--help", "--version", "--cache-prompt", "--no-cache-prompt",
     "--direct-io", "--no-direct-io", "-dio", "-ndio", "--simple-io", "-mli", "--multiline-input",
     "--no-display-prompt", "--display-prompt", "--vision", "--tools-all")
)  # fmt: skip

# Flags with a value that do not touch memory: sampling, the server, templates, logging, CPU threads.
VALUED = frozenset(
    """
    -t --threads -tb --threads-batch -C --cpu-mask -Cr --cpu-range --prio --poll -Cb --cpu-mask-batch -Crb
    --cpu-range-batch --prio-batch --poll-batch --cpu-strict-batch -n --predict --n-predict --keep -p --prompt -f
    --file -bf --binary-file -sys --system-prompt -sysf --system-prompt-file --numa --lookup-cache-static -lcs
    --lookup-cache-dynamic -lcd --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx
    --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --control-vector
    --control-vector-scaled --control-vector-layer-range --log-file --log-verbosity -lv --verbosity --samplers -s
    --seed --sampling-seq --sampler-seq --temp --temperature --top-k --top-p --min-p --top-nsigma --top-n-sigma
    --xtc-probability --xtc-threshold --typical --typical-p --repeat-last-n --repeat-penalty --presence-penalty
    --frequency-penalty --dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker
    --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent --mirostat-tau -l --logit-bias --grammar
    --grammar-file -j --json-schema -jf --json-schema-file -a --alias --host --port --path --api-prefix --api-key
    --api-key-file --ssl-key-file --ssl-cert-file --chat-template --chat-template-file --chat-template-kwargs
    --reasoning --reasoning-format --reasoning-budget -to --timeout --threads-http --cache-reuse
    --slot-save-path --lora-init-without-apply --embd-normalize --rpc -hft --hf-token
    --models-dir --models-preset --models-max --media-path --image --audio -r --reverse-prompt -ptc
    --print-token-count --tags --webui-config --webui-config-file --attention --image-min-tokens --image-max-tokens
    --draft --draft-n --draft-max --draft-min --draft-n-min --draft-p-min --draft-p-split --spec-draft-n-max
    --spec-draft-n-min --spec-draft-p-min --spec-replace --ctx-checkpoints --swa-checkpoints -dt --defrag-thold -gan
    -gaw --grp-attn-n --grp-attn-w --fit-ctx --fit-target --sleep-idle-seconds --tools --cors
    --checkpoint-every-n-tokens --checkpoint-min-step -cpent --backend-sampling -bs --docker-repo -dr
    """.split()  # noqa: SIM905
)
# Further switches.
SWITCHED = frozenset(
    """
    --embedding --embeddings --reranking --rerank --log-enable --verbose-prompt --in-prefix-bos --models-autoload
    --no-models-autoload --skip-chat-parsing --no-skip-chat-parsing -cb --mlock --no-mmap --mmap --interactive-first
    -if --completion-bash --embd-bge-small-en-default --fim-qwen-1.5b-default --fim-qwen-3b-default
    --fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default
    --gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default --cache-list -cl --list-devices
    --webui-mcp-proxy --no-webui-mcp-proxy --reuse-port -np --license
    """.split()  # noqa: SIM905
)

# What common/arg.cpp of b11181 has besides, for its server and its command line: with a value, and without.
_MORE_VALUED = """
    --adaptive-decay --adaptive-target --cors-headers --cors-methods --cors-origins --cpu-mask-batch-draft
    --cpu-mask-draft --cpu-range-draft --cpu-range-batch-draft --cpu-strict-batch-draft --cpu-strict-draft --in-prefix
    --in-suffix --lazy-mode --log-prompts-dir --mcp-servers-config --mcp-servers-json --mtmd-batch-max-tokens --output
    --output-file --poll-batch-draft --poll-draft --prio-batch-draft --prio-draft --prompt-cache
    --reasoning-budget-message --reasoning-effort --server-base --spec-draft-cpu-mask --spec-draft-cpu-mask-batch
    --spec-draft-cpu-range --spec-draft-cpu-range-batch --spec-draft-cpu-strict --spec-draft-cpu-strict-batch
    --spec-draft-p-split --spec-draft-poll --spec-draft-poll-batch --spec-draft-prio --spec-draft-prio-batch
    --spec-draft-threads --spec-draft-threads-batch --spec-ngram-map-k-min-hits
    --spec-ngram-map-k-size-n --spec-ngram-map-k4v-min-hits --spec-ngram-map-k4v-size-n
    --spec-ngram-min-hits --spec-ngram-mod-n-match --spec-ngram-mod-n-min
    --spec-ngram-simple-min-hits --spec-ngram-simple-size-n --spec-ngram-size-m
    --spec-ngram-size-n --spec-synth-len --spec-synth-rates --sse-ping-interval --threads-batch-draft --threads-draft
    --tools-runtime --ui-config --ui-config-file --video --video-ffmpeg-dir --video-fps --video-timestamp-interval
    -Cbd -Cd -Crd -Crbd -cms -co -lm -lzm -o -rea -tbd -td -mmdev
    """
_MORE_SWITCHES = """
    --agent --cache-idle-slots --cors-credentials --embd-gemma-default --log-jsonl --no-agent --no-cors-credentials
    --no-log-jsonl --no-reasoning-preserve --no-show-timings --no-spec-draft-backend-sampling --no-ui-mcp-proxy
    --prompt-cache-all --prompt-cache-ro --reasoning-preserve --show-timings --spec-draft-backend-sampling
    --ui-mcp-proxy --usage -ag -no-ag
    """
VALUED |= frozenset(_MORE_VALUED.split())
SWITCHED |= frozenset(_MORE_SWITCHES.split())
# These move memory, and no plan reads them: adapters, and weights of the CPU laid out anew beside a GPU, which then
# does not read them.
NOT_PLANNED: Final = frozenset(("--no-host", "--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled"))
VALUED |= NOT_PLANNED - {"--no-host"}

# What --load-mode took the place of (builds.LOAD_MODE_SINCE), and what says the same now.
BEFORE_LOAD_MODE: Final = {
    "--mmap": "--load-mode mmap", "--no-mmap": "--load-mode none", "--mlock": "--load-mode mlock",
    "--direct-io": "--load-mode dio", "-dio": "--load-mode dio", "--no-direct-io": "--load-mode auto",
    "-ndio": "--load-mode auto",
}  # fmt: skip

BY_NAME: Final = {name: row for row in ROWS for name in row.names}


def is_known(flag: str) -> bool:
    return flag in BY_NAME or flag in SWITCHES or flag in SWITCHED or flag in VALUED


# common/common.h: --cpu-moe, and with "blk\\.N" before it --n-cpu-moe; the dense MLPs of --n-cpu-ffn
MLP: Final = r"\.ffn_(up|down|gate)\."
EXPERTS: Final = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
