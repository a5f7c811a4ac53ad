# ruff: noqa: E501 - a row is a line
"""What the title of a report says: that it failed, and what it names as the error, in the loose words of people: "crash with illegal memory access".

A title is evidence only where no line below it says what ended the run (doctor/reading/failure.py): each row fills the
group `title`, by which it is known. What each kind means is in doctor/reading/not_memory.py.
"""

from typing import Final

from oomph.facts.loglines import LogRow
from oomph.ir.log_kinds import LogKind

_ROWS: Final[tuple[tuple[LogKind, str], ...]] = (
    ("x_bad_address", r"illegal (?:memory access|instruction|address)|cudaErrorIllegal|misaligned address|device-side assert|CUBLAS_STATUS_(?!ALLOC)|memory access fault|invalid device pointer|\bXid \d"),
    ("x_nccl", r"(?:nccl|rccl|hccl|gloo|all[- ]?reduce|all[- ]?gather|collectives?)\b[^.]{0,40}(?:errors?|time[ds]?[ -]?out|hangs?|fail(?:s|ed|ure)?|stuck|deadlock)|watchdog[^.]{0,30}time[ds]?[ -]?out|unhandled (?:system|cuda) error|client socket has timed out|(?:connect\w{0,4}|socket)\b[^.]{0,60}(?:node|peer|rank|worker|socket)[^.]{0,40}time[ds]?[ -]?out|rendezvous[^.]{0,30}(?:time|fail|error)"),
    ("x_crash", r"seg[ -]?fault|segmentation fault|SIGSEGV|SIGABRT|core dump"),
    ("x_no_kernel", r"no kernel image|(?:sm_?\d{2,3}a?|gfx\d{3,4}|compute capability [\d.]{1,5})\b[^.]{0,40}(?:not support|unsupport)|(?:not (?:compiled|built)|no kernels?) for sm_?\d"),
    ("x_architecture", r"\b(?:not|nicht|un)\b[^.]{0,30}architektur\w*[^.]{0,30}unterstütz|\bnot (?:among|in|one of)\b[^.]{0,30}architectures?\b[^.]{0,30}support|(?:architectures?|model[ _]type)\b[^.]{0,60}(?:not (?:support|recogni)|unsupport|unknown)|(?:unsupported|unknown) (?:model )?(?:architecture|model type)|\w{2,40}For(?:CausalLM|ConditionalGeneration)\b[^.]{0,40}(?:not (?:support|recogni|found)|unsupport|unknown|nicht (?:unterstützt|bekannt)|不(?:在)?支持)|(?:模型(?:结构|架构|类型)|架构)[^。]{0,60}(?:不(?:在)?支持|无法识别|未知)|(?:modell)?architektur[^.]{0,60}(?:nicht (?:unterstützt|bekannt|erkannt)|unbekannt)"),
    ("x_import", r"ImportError|ModuleNotFoundError|no module named|module (?:is )?not found|needs? [`'\"]?\w{2,60}[`'\"]? module|undefined symbol|cannot import|DLL load failed"),
    ("x_mismatch", r"(?:shape|size|dimension)s? mismatch|KeyError: ?['\"`][\w.]{1,80}(?:weight|scale|bias|layers)|no module or parameter named|weights? (?:were |was |are )?not initiali[sz]ed|missing (?:weights?|tensors?)"),
    ("x_capture", r"(?:when|while) stream is capturing|StreamCapture"),
    ("x_compiler", r"torch\.?_?compile\b[^.]{0,40}(?:fail|error|crash)|inductor\b[^.]{0,40}(?:fail|error|crash)|InductorError|BackendCompilerFailed|torch\._dynamo|(?:triton|jit|ninja|nvcc|ptxas)\b[^.]{0,30}(?:compil\w{0,5}|build)[^.]{0,20}(?:fail|error)"),
    ("x_kernel_shared", r"shared memory\b[^.]{0,40}(?:exceed|limit|out of)|OutOfResources|out of resources?: shared"),
    ("x_slow_start", r"(?:start(?:ing|up|s)?|load(?:ing|s)?|launch(?:ing)?|ready|initiali[sz]\w{1,5})\b[^.]{0,40}time[ds]?[ -]?out|time[ds]?[ -]?out\b[^.]{0,40}(?:start|load|launch|ready|initiali)"),
    ("x_dtype_card", r"(?:bf16|bfloat16|fp8|fp4|nvfp4|flash[ -]?attention)\b[^.]{0,60}(?:not supported on|unsupported on|only supported on)|(?:not|n['’]t) support (?:bf16|bfloat16|fp8|fp4|nvfp4)"),
    ("x_gated", r"\b(?:401|403)\b[^.]{0,40}(?:client|error|unauthori|forbidden|hub|hugging ?face|repo)|access (?:to [^.,]{0,60})?(?:is |was |are )?(?:restricted|denied)|zugriff [^.,]{0,60}(?:verweigert|gesperrt)|(?:需要|没有)(?:访问)?(?:授权|权限)|gated (?:repo|model)|没有权限访问|(?:kein\w{0,2} (?:zugriff|berechtigung)|no access)\b[^.]{0,30}(?:repo|model)"),
    ("x_port", r"address already in use|\bport\b[^.,]{0,20}(?:already|schon|bereits|is|ist)\b[^.,]{0,8} (?:in use|taken|occupied|bound|belegt|vergeben|besetzt)|端口[^,，。]{0,12}(?:占用|被用)"),
    ("x_broken_file", r"SafetensorError|corrupt(?:ed)? (?:file|checkpoint|safetensors|gguf|model)"),
    ("x_driver", r"\bdriver\b[^.,]{0,40} (?:too old|insufficient|outdated)|treiber [^.,]{0,20}(?:zu alt|veraltet)|驱动[^,，。]{0,8}(?:太旧|太老|过旧|过低)|unsupported toolchain"),
    ("x_disk", r"\b(?:disk|ssd|volume|partition|(?:fest)?platte)\b[^.,]{0,20} (?:full|voll|out of space)\b|(?:磁盘|硬盘)[^,，。]{0,8}满"),
    ("x_no_gpu", r"\b(?:no|keine) (?:cuda |nvidia |hip )?gpus? (?:is |are |was |were )?(?:visible|found|available|detected|seen|gefunden|sichtbar|erkannt)|(?:找|检测|识别)不到 ?(?:GPU|显卡)"),
    ("driver_oom", r"NV_ERR_NO_MEMORY"),
    ("sigkill", r"\b(?:be|been|being|gets?|getting|got|was|is|are|keeps?|process|worker) killed\b|OOM[- ]?kill|exit(?:ed)? (?:with )?(?:code|status) 137"),
)  # fmt: skip
# what a sentence below a title may name just so
LOOSE: Final[tuple[tuple[LogKind, str], ...]] = tuple(
    (kind, rf"(?i){words}") for kind, words in _ROWS if kind in ("x_bad_address", "x_nccl", "x_crash", "x_no_kernel",
                                                                  "x_architecture", "x_capture", "x_kernel_shared", "x_import", "x_gated", "x_port",
                                                                  "x_broken_file", "x_driver", "x_disk", "x_no_gpu")
)  # fmt: skip
# that it failed, in the words of people, whatever of
_FAILED: Final = (
    r"crash|hang|hung|\bkill|\bdie[sd]\b|freez|frozen|fail|error|exception|abort|assert|deadlock|\bbroken?\b|崩溃|挂掉|报错|失败|卡住|卡死|无法|错误|被杀|"
    r"(?:cannot|can['’]?t|can not|could ?n['’]?t|could not|unable|not able|wo ?n['’]?t|will not|does ?n['’]?t|does not|did not|did ?n['’]?t|never)"
    r" (?:be |able to |to |properly |correctly |get \w{1,20} to ){0,3}(?:load|start|run|launch|serve|boot|deploy|init)"
)
# a wish, not a report: nothing of its author's own has failed unless a log below says so
_PROPOSED: Final = r"[\[(](?:feature|rfc|docs?|perf\w{0,10}|misc|roadmap|proposal|enhancement|new model|feat)\b|(?:feat|docs?|perf|chore|refactor)(?:\(\w{1,30}\))?:"
TITLES: Final[tuple[LogRow, ...]] = (
    LogRow("proposed", "# ", rf"(?i)^# (?:{_PROPOSED})"),
    LogRow("said_failed", "# ", rf"(?i)^# (?!.{{0,200}}(?:performance|question|\bslow)).{{0,200}}?(?:{_FAILED})"),
    *(LogRow(kind, "# ", rf"(?i)(?P<title>^# ).{{0,200}}?(?:{words})") for kind, words in _ROWS),
)
