# ruff: noqa: E501 - a row is a line
"""What a change is about, however it is called: a flag of any engine, or the words of people for it in English, German
and Chinese. A sentence and a remedy that are about the same thing are found to be so by their topic."""

from typing import Final

from oomph.text.late import late_pattern

_LESS = r"(?:short(?:er|en\w{0,3})|small(?:er)?|less|few(?:er)?|lower(?:ed|ing)?|reduc\w{1,4}|decreas\w{1,4}|limit(?:ed|ing)?|kürz\w{1,5}|klein\w{1,4}|wenig\w{1,3}|senk\w{1,4}|gesenkt|reduzier\w{0,4}|verringer\w{0,4})"
_ROWS: Final[tuple[tuple[str, str], ...]] = (
    ("share", r"gpu[-_ ]?mem(?:ory)?[-_ ]?util\w{0,8}|mem(?:ory)?[-_]fraction(?:[-_]static)?|(?:kv_cache_)?free_gpu_mem(?:ory)?_fraction|share of the card|\butili[sz]ation\b|auslastung|显存利用率|显存占用率|利用率"),
    ("context", rf"max[-_]model[-_]len|context[-_]length|num_ctx|(?<!\S)-c(?= ?\d)|ctx[-_]size|\bn_ctx\b|max[-_]seq[-_]len|max_input_len|{_LESS} (?:the |a |my |den |der |einen |auf )?(?:\w{{1,12}} )?(?:context|kontext\w{{0,7}}|sequence length)|(?:context|kontext\w{{0,7}}) (?:\w{{1,12}} ){{0,3}}{_LESS}|上下文"),
    ("sequences", rf"max[-_]num[-_]seqs|max[-_]running[-_]requests|max[-_]batch[-_]size|(?<!\S)-np\b|NUM_PARALLEL|{_LESS} (?:\w{{1,12}} ){{0,2}}(?:sequences|concurrent requests|concurrency|gleichzeitige\w{{0,1}} anfragen)|并发数"),
    ("batch", r"max[-_]num[-_]batched[-_]tokens|chunked[-_]prefill[-_]size|max_num_tokens|(?<!\S)-ub\b|num_batch|ubatch|enable[-_]chunked[-_]prefill|批大小"),
    ("graphs", r"enforce[-_]eager|eager mode|disable[-_]cuda[-_]graph|cuda_graph_config|cudagraph[-_]capture|without (?:cuda )?graphs|ohne (?:cuda-?)?graphen|no cuda graphs|(?:turn|switch)\w{0,3} (?:\w{1,8} ){0,2}graphs off|graphs? (?:turned |switched )?off\b|disabl\w{1,3} (?:the )?(?:cuda )?graphs|graphen (?:abschalt|ausschalt|aus\b)\w{0,3}|(?:关闭|禁用|不用) ?(?:cuda ?)?graph"),
    ("gpus", r"tensor[-_]parallel(?:[-_]size)?|(?<!\S)--?tp\b|tp[-_]size|more gpus|mehr (?:gpus|karten)|two gpus instead|更多(?:的)?(?:显卡|GPU)|张卡"),
    ("kv_dtype", r"kv[-_]cache[-_]dtype|(?<!\S)-ctk\b|cache[-_]type|KV_CACHE_TYPE|fp8 kv|kv (?:cache )?(?:in )?fp8"),
    ("offload", r"cpu[-_]offload(?:[-_]gb)?|offload(?:ing)? (?:to|weights)|weights in host memory|卸载"),
    ("swap", r"swap[-_]space|more swap|mehr swap|swapfile|交换(?:空间|分区)"),
    ("layers", r"n[-_]gpu[-_]layers|(?<!\S)-ngl\b|num_gpu\b|fewer layers|weniger layer|层数"),
    ("expandable", r"expandable_segments|ALLOC_CONF"),
    ("checkpoint", rf"{_LESS} (?:quant\w{{0,8}}|model|gguf)|another checkpoint|quanti[sz]ed (?:model|version|checkpoint)|更小的模型|量化版"),
    ("shm", r"shm[-_]size|ipc=host|/dev/shm"),
    ("images", r"limit[-_]mm[-_]per[-_]prompt|mm[-_]processor|max_pixels|(?:fewer|smaller) images"),
    ("prefix", r"prefix[-_ ]caching|radix[-_]cache"),
    ("host_limit", r"mem_limit|memory limit|--memory\b|container'?s? (?:memory )?limit|more (?:host )?(?:memory|ram)\b|mehr (?:arbeits)?speicher|mehr ram|内存限制"),
    ("restart", r"\b(?:re(?:start|boot)(?:s|ed|ing)?) (?:the |my |it|everything|docker|machine|server|host|container)|start it again|neu ?(?:start|gestartet)\w{0,3}|重启(?:机器|服务器|容器)?"),
    ("empty_cache", r"empty_cache|drop_caches"),
    ("backend", r"(?:attention|moe|attn)[-_](?:runner[-_])?backend"),
    ("drafts", r"speculative[-_]config|num[-_]speculative[-_]tokens|without (?:mtp|eagle|speculative)|no speculative"),
    ("free_card", r"(?:end|kill|stop)(?:ed|ing|ped)? (?:all |the |every )?(?:\w{1,12} )?process(?:es)?|end what else|free the card|keep other processes off"),
    ("release", r"(?:up|down)grad\w{1,4}|newer (?:release|version)|(?:latest|newest|neueste\w{0,1}|neuere\w{0,1}) (?:release|version)|another release|nightly|更新(?:到|版本)|升级"),
)  # fmt: skip
# settings that move the memory of a GPU
MEMORY_TOPICS: Final = frozenset({"share", "context", "sequences", "batch", "graphs", "kv_dtype", "layers", "offload"})
TOPICS: Final = tuple((name, late_pattern(rf"(?i){words}")) for name, words in _ROWS)
FLAG: Final = late_pattern(
    r"(?<![\w-])--[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+(?:[ =](?:[\d.][\w.%]{0,16}|fp8\w{0,8}|auto|true|false|[\w.-]{1,40}/[\w.-]{1,60}))?"
)
SHORT_FLAG: Final = late_pattern(r"(?<![\w-])-(?:ub?|b|c|ngl|np|ctk|ctv|tp|fa|ot|ts)\b(?: \d{1,7})?(?![\w.])")
VARIABLE: Final = late_pattern(r"(?<![\w.])[A-Z][A-Z0-9_]{5,60}=[^\s`,;)\"']{1,80}")
UP: Final = late_pattern(
    r"(?i)\b(?:rais(?:e|ed|ing)|increas\w{1,4}|higher|more|larger|up to|erhöh\w{1,3}|höher\w{0,2}|mehr)\b|提高|调高|增大|加大|增加"
)
DOWN: Final = late_pattern(
    r"(?i)\b(?:lower(?:ed|ing)?|reduc\w{1,4}|decreas\w{1,4}|smaller|less|down to|senk\w{1,4}|gesenkt|reduzier\w{0,4}|verringer\w{0,4}|kleiner\w{0,2}|weniger|runter)\b|降低|调低|减小|减少|调小"
)


def topics_of(text: str) -> frozenset[str]:
    """What a clause or a remedy is about; a flag that has no topic stands for itself, without its value."""
    names = {name for name, words in TOPICS if words.search(text)}
    flags = (match[0] for match in FLAG.finditer(text))
    alone = {flag.partition("=")[0].partition(" ")[0].replace("_", "-") for flag in flags if not _has_topic(flag)}
    return frozenset(names | alone)


def _has_topic(flag: str) -> bool:
    return any(words.search(flag) for _, words in TOPICS)
