"""The words that decide what a question asks, in English, German, Chinese, Spanish and French.

A pattern is searched in the question in small letters. Chinese is written without blanks: its words stand alone.
"""

from oomph.text.late import late_pattern

NO_PRICES = (
    "oomph knows no prices: it says which cards hold a model, and takes your own prices (oomph gpus --prices FILE)"
)
# "What should I buy for this model" asks for the cards that hold it; without a model it asks for prices.
BUY = late_pattern(r"\bbuy(?:ing)?\b|\bkaufen\b|\bcomprar\b|\bacheter\b|买")
# What is not ours, and what to say of it. The first that is found counts.
NOT_OURS = (
    (
        "training",
        late_pattern(
            r"\b(?:re|pre)?train(?:ing|ed)?\b|\bfine[- ]?tun\w*|\bq?lora (?:train|tun)\w*|\bsft\b|\bdpo\b"
            r"|\btrainier\w*|\bfeinabstimm\w*|\bentren\w*|\bentraîn\w*|\baffin\w*|训练|微调"
        ),
        "oomph foresees serving, not training: what a fine-tune takes is another sum",
    ),
    (
        "images",
        late_pattern(
            r"\bstable diffusion\b|\bsdxl\b|\bcomfyui\b|\bflux(?:\.\d)?\b|\bimage gen\w*"
            r"|\bgenerat\w+ (?:images?|video)"
            r"|\btext[- ]to[- ](?:image|video)|\bbilder (?:erzeug|generier)\w*|\bgener\w+ im[aá]g\w+|文生图|画图|生成图"
        ),
        "oomph foresees language models, not models that make images or videos",
    ),
    (
        "prices",
        late_pattern(
            r"\bpric(?:e|es|ing)\b|\bcosts?\b|\bcheap\w*|\bhow much (?:is|are)\b|[$€£]\s?\d|\bbudget\b"
            r"|\bkost\w*|\bpreis\w*|\bbillig\w*|\bgünstig\w*|\bprecio\w*|\bcuesta\w*|\bbarat\w*|\bprix\b|\bcoûte\w*"
            r"|多少钱|价格|便宜"
        ),
        NO_PRICES,
    ),
    ("link", late_pattern(r"\bhttps?://|\bwww\."), "oomph opens no links: name the model or paste the command"),
)

# What decides between two ways to serve, as --prefer takes it.
PREFERS = (
    (
        "users",
        late_pattern(
            r"\bhow many (?:concurrent |simultaneous |parallel )?(?:users|people|requests|clients|sessions)"
            r"|\b(?:most|max(?:imum|imal\w*)?) (?:number of )?(?:concurrent |simultaneous |parallel )?"
            r"(?:users|people|requests|clients|sessions|concurrency)|\bthroughput\b|\bwie viele (?:nutzer"
            r"|anwender|benutzer)"
            r"|\bcu[aá]ntos (?:usuarios|clientes)|\bcombien d['’ ]\s?(?:utilisateurs|usagers|clients)"
            r"|多少(?:个)?(?:用户|人|并发)|最大并发"
        ),
    ),
    (
        "context",
        late_pattern(
            r"\b(?:max(?:imum|imal\w*)?|long(?:est)?|largest|biggest|how (?:much|many tokens of|long(?: a)?"
            r"|big(?: a)?)|(?:what|which)(?:'s| is)?(?: the)?) (?:context|ctx)"
            r"|\b(?:maximale[rn]?|wie ?viel|welche[rn]?|wie lange[rn]?) kontext|\bcontexto m[aá]ximo"
            r"|\b(?:cu[aá]nto|qu[eé]) contexto|\b(?:combien de|quel) contexte|\bcontexte (?:max\w*|le plus long)"
            r"|最[大长](?:的)?上下文|(?:多少|多[大长])(?:的)?上下文|上下文.{0,4}多[大长]"
        ),
    ),
    (
        "speed",
        late_pattern(
            r"\bfast(?:est|er)?\b|\bspeed\b|\bquick(?:est|ly)\b|\btok(?:en)?s?\s?(?:/|per )\s?s\w*|\bschnell\w*"
            r"|\br[aá]pid\w*|\bvitesse\b"
            r"|\bvelocidad\b|多快|最快|速度"
        ),
    ),
    ("quality", late_pattern(r"\bbest quality\b|\bsmartest\b|\bhighest quality\b|\bbeste qualität\b|质量最")),
)

# What a model is for, as `models --for` takes it.
PURPOSES = (
    ("code", late_pattern(r"\bcod(?:e|ing|er)\b|\bprogram(?:m|ar|aci[oó]n)\w*|\bc[oó]digo\b|\bsoftware dev\w*"
                          r"|写代码|编程|代码")),
    ("reasoning", late_pattern(r"\breason\w*|\bthinking\b|\bmath\w*|\brazonamiento\b|\braisonnement\b|推理模型|思考")),
    ("vision", late_pattern(r"\bvision\b|\bimages?\b|\bmultimodal\b|\bvisi[oó]n\b|\bpictures?\b|\bocr\b|\bbilder?\b"
                            r"|\bim[aá]gen(?:es)?\b|看图|视觉|图片|多模态")),
    ("embedding", late_pattern(r"\bembed\w*|\brag\b|\bretrieval\b|嵌入|向量")),
)  # fmt: skip

_USERS = (
    r"(?:concurrent |simultaneous |parallel |gleichzeitige[nr]? |simult[aá]neos? |simultan[eé]\w* )?"
    r"(?:users?|requests?|people|clients?|sessions?|conversations?|nutzern?|benutzern?|anwendern?|anfragen"
    r"|usuarios?|peticiones|utilisateurs?|requêtes|"
    r"个?用户|人同时|个?并发|路并发)"
)
USERS = late_pattern(
    rf"\b(\d{{1,5}})\s{{0,3}}{_USERS}(?!\s{{0,3}}(?:per|a|/|pro|por|par)\s{{0,3}}(?:s\b|sec|min|hour|day|stunde|tag))"
)
CONTEXT = late_pattern(
    r"(?<![a-z0-9_.])(\d{1,4}(?:\.\d)?)\s?([km])(?![a-z0-9_])"
    r"(?:\s{0,2}(?:-\s?)?(?:tokens?|context|ctx|kontext|contexto|contexte|上下文))?"
    r"|(?<![a-z0-9_.])(\d{3,8})\s{0,2}(?:-\s?)?(?:tokens?|context|ctx)\b"
    r"|\b(?:context|ctx|kontext|contexto|contexte|上下文)\s{0,2}(?:length|size|window|of|von|de|="
    r"|:)?\s{0,2}(?:of\s)?(\d{3,8})\b"
)
# Memory that is not the card's, and heads that do not ask at once: said, and not counted.
RAM = late_pattern(
    r"\b\d{1,4}\s?g(?:i?b)?\s(?:of\s|de\s(?:la\s)?|d')?(?:ddr\d|system|host|cpu|main)?\s?"
    r"(?:ram|memory|arbeitsspeicher|hauptspeicher|memoria|mémoire(?: vive)?)\b"
    r"|\b\d{1,4}\s?g(?:i?b)?\s?(?:的)?(?:系统|主机)?内存|\bram\s\d{1,4}\s?g(?:i?b)?\b"
    r"|内存\s?\d{1,4}\s?g(?:i?b)?\b"
)
IN_BRACKETS = late_pattern(r"\((\d{1,2}x?)\)")  # "(2) 3090s"
MILLION = late_pattern(r"(?i)\b(\d{1,2}(?:\.\d)?)\s?(?:millions?|millones|millón|million(?:en)?|mio)\b\.?")
GIGABYTES = late_pattern(r"(?i)(?<![\w.])(\d{1,4})\s?(?:go|gigs?|gigas?|gigabytes?|gigaoctets?)\b")
MEMORY = late_pattern(r"(?i)\b\d{1,4}\s?g(?:i?b)?\b")
VRAM = late_pattern(
    r"\b(\d{1,4}\s?g(?:i?b)?)\s(?:of\s)?(?:v-?ram|video memory|gpu memory|graphics memory|grafikspeicher|显存)\b"
)
HEADS = late_pattern(
    r"\b(?:team|office|company|firma|equipo|équipe) (?:of|von|de) \d{1,6}\b"
    r"|\b\d{1,6} (?:employees|developers|devs|engineers|students|colleagues|mitarbeiter\w*|entwickler\w*"
    r"|empleados|employés)\b"
)
RATES = late_pattern(
    r"\b\d{1,6}(?:\.\d)?\s?(?:requests?|req|prompts?)\s?(?:/|per|a|pro)\s?(?:s\b|sec\w*|min\w*|hour\w*|day\w*)"
    r"|\b\d{1,5}\s?(?:rps|qps)\b"
)

# Machines whose GPU shares the memory of the CPU: there RAM is what a model has.
SHARED = late_pattern(
    r"\bmac(?:book| mini| studio)?\b|\bimac\b|\bm[1-5](?: (?:pro|max|ultra))?\b|\bstrix halo\b|\bai max\b"
    r"|\bdgx spark\b|\bgb10\b"
)
RAM_WORD = late_pattern(r"(?i)(?<=b)\s(?:of\s)?(?:unified |shared )?(?:ram|memory|arbeitsspeicher|内存)\b")
# "a Mac mini with 64GB": the size belongs to the card before it.
WITH_SIZE = late_pattern(r"(?i)\b(?:with|mit|con|avec|de|à)(?=\s\d{1,4}\s?g(?:i?b)?\b)")
# A mobile card is another one than the card of that name.
LAPTOP = late_pattern(r"\blaptops?\b|\bnotebooks?\b|\bportátil\b|\bportable\b|笔记本")
# "how many 4090s for ...": the number of cards is what is asked.
HOW_MANY = late_pattern(r"(?:\bhow many|\bwie viele|\bcu[aá]ntas|\bcombien de|多少张|多少块|几张|几块)\s{0,3}$")

# A processor alone, which is no GPU and has no memory of its own.
NO_GPU = late_pattern(
    r"\b(?:without|no|any|ohne|sin|sans|kein\w*|pas de) (?:an? |any |eine? |una? )?"
    r"(?:gpu|graphics card|video card|grafikkarte|tarjeta gr[aá]fica|carte graphique)\b"
    r"|\bcpu[- ]only\b|\bonly (?:on |with )?(?:an? |my |the )?cpu\b|\braspberry\b"
    r"|没有(?:显卡|gpu)|纯cpu"
)
NEEDS_GPU = (
    "no GPU is named: say which card, how much memory one has (24GB), or which machine with shared memory (Mac mini "
    "64GB); a processor alone is not foreseen"
)
# What `fit` and `gpus` have a flag for, of a model that is named.
PLAIN_WEIGHTS = late_pattern(
    r"\bun-?quanti[sz]ed\b|\b(?:without|no|ohne|sin|sans) quanti\w+|\bfull precision\b|\b(?:in |at |as )?(?:bf|fp)16\b"
    r"|\bunquantisiert\w*|\bsin cuantizar\b|不量化|未量化|全精度"
)
IMAGES = late_pattern(r"\b(?:with|for|and|mit|con|avec) (?:images?|pictures?|vision|bildern?|im[aá]gen\w*)\b")
# Parts of a machine that decide nothing here; they look like names.
PARTS = late_pattern(
    r"i[3579](?:-\d.*)?|\d+[a-z]{1,3}\d?[a-z]?|ddr\d\w*|pcie.*|gen\d|x\d+|sm_?\d+\w*|cuda.*|rocm.*|wsl\d?|usb\w*|v?\d.*"
    r"|[a-z]?\d{4}[a-z]?\d?|python.*|ubuntu.*|win(?:dows)?\d+|epyc.*|xeon.*|ryzen.*|threadripper.*|m\.2|t/s|tok/s|24/7"
)
# What a card begins with: a number behind it that no card has is asked back.
BRANDS = late_pattern(r"rtx|gtx|rx|radeon|geforce|quadro|tesla|instinct|arc|intel|amd|nvidia|tpu|npu|ascend|gaudi|groq")
CARD = late_pattern(
    r"(?:\d{1,3}\s?x?\s?)?(?:rtx|gtx|rx|radeon|geforce|quadro|tesla|instinct) ?[a-z]{0,4} ?\d{3,4}\b[^-]*$"
)

# Something died: its log says of what.
NEEDS_LOG = "what a server died of is read from its log: paste its lines, or the whole of it"
DIED = late_pattern(
    r"\berrors?\b|\boom\b|\bout of memory\b|\bno available memory\b|\bcrash\w*|\bkilled\b|\bdie[sd]?\b|\bfail\w*"
    r"|\bfehler\b|\bstürzt\b|\babgestürzt\b|\bfalla\b|\berreur\b|\bplante\b|报错|崩溃|爆显存|内存不足|显存不足"
)
# Engines as they are called, and words that take one out.
ENGINES = (
    ("vllm", late_pattern(r"(?a)\bvllm\b")),
    ("sglang", late_pattern(r"(?a)\bsglang\b")),
    ("llamacpp", late_pattern(r"(?a)\bllama[ ._-]?cpp\b|\bllama-server\b|\bgguf\b")),
    ("ollama", late_pattern(r"(?a)\bollama\b")),
    ("trtllm", late_pattern(r"(?a)\btrt[ -]?llm\b|\btensorrt(?:[ -]?llm)?\b")),
)
OTHERS = ("vllm", "sglang", "llamacpp", "ollama")  # what "anything but" one of them leaves
NOT = late_pattern(
    r"(?:\bbut|\bnot|\bno|\bwithout|\bexcept|\bavoid|\bohne|\bnicht|\bkein\w*|\bsin|\bsans|\bpas|不用"
    r"|不要)\s{0,2}(?:with |using |mit |con |avec )?$"
)

# A card that is ruled out ("not a Mac"); "why not two 3090s" proposes them.
NOT_CARD = late_pattern(
    r"(?<!why )(?<!or )(?<!warum )\b(?:not|no|without|except|instead of|ohne|nicht|kein\w*|statt|sin|sans|pas(?: de)?)"
    r"\s{1,2}(?:on |with |using |auf |mit |con |en |avec |sur )?(?:an? |my |the |any |eine?[mnr]? |una? |une? )?$"
    r"|不[用是要]$"
)
RELEASE = late_pattern(r"\s{0,2}(?:==|v|version\s)?\s?(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)(?![\w.])")  # behind an engine
# "Which engine" and "vLLM or SGLang" ask for a comparison.
WHICH_ENGINE = late_pattern(
    r"\b(?:which|what|best|compare|comparing|vergleich\w*|compar\w*) (?:(?:the|all|die|los|les|inference|serving) )?"
    r"(?:engine|backend|runtime|motor|moteur)(?:e?s|en)?\b|\bwelche engine\b"
    r"|\bqu[eé] motor\b|\bquel moteur\b|(?:哪个|什么)(?:推理)?(?:引擎|框架)"
)
# How the weights are kept, where it does not stand in the model's name.
QUANTISED = late_pattern(r"(?a)\b(?:in |as |at |als |en )?(awq|gptq|nvfp4|mxfp4|fp8|int[48]|[48]-bit)\b")
BITS = late_pattern(r"(?i)\b([48])[ -]?bits?\b")
# The type of a GGUF file, which llama.cpp and Ollama read.
FILE_TYPE = late_pattern(r"(?:^|[-_:])(?:i?q[1-8](?:_[a-z0-9_]+)?|gguf)$")

# Between a command and the GPUs behind it.
ON = late_pattern(r"(?i)(?<!\s)\s+(?:on|with|auf|mit|en|con|sur|avec)\s+(?=\S)")
# Between two cards: both at once, or one of two.
OR = late_pattern(r"\s*(?:,\s*)?(?:\bor\b|\boder\b|\bo\b|\bou\b|或者?|还是|/|\bvs\.?\b|\bversus\b)\s*")

# Words that carry nothing of their own.
PLAIN = frozenset(
    """a an the this that these is are be am will would can could should may do does did i we you it me my our your
    have has got had want need like know tell say on in at of for with to from by into and or if then than so as
    what which who how when where why much many long big good best most max maximum please thanks hi hello hey
    run running runs ran serve serving served host hosting use using used load loading fit fits fitting work
    works working handle hold holds enough possible able there any some all one only just still even also too
    more model models llm llms gpu gpus card cards graphics machine computer pc rig server box setup vram
    hardware memory local locally home mac macbook laptop tokens token context ctx length window users user
    requests request people concurrent simultaneous parallel at once each per way anything something thing make
    sense smallest largest minimum min required requirements requirement take takes fastest speed fast quality
    reasoning coding code vision embedding chat chatbot open source weights not but without instead quantized
    quant version get am pm ok okay im ive whats id lets let try going well properly fully entirely kann könnte
    ich wir du man auf mit für von der die das den dem ein eine einer einem einen welche welcher welches welchen
    was wie viel viele laufen läuft lassen lässt passt passen brauche brauchen braucht modell modelle modellen
    nutzer schafft schaffen gleichzeitig und oder ist sind reicht reichen genug starten grafikkarte karte bei es
    geht gehen hat habe kontext mein meine meiner meinem puedo puede podría ejecutar correr usar en con para de
    del la el los las un una unos qué que cuál cuáles cuántos cuánta cuánto cabe caben modelo modelos necesito
    necesita hace falta tengo tarjeta usuarios funciona funcionan sobre y o es mi mis est ce est-ce que puis je
    peut on faire tourner tourne tournent tient tiennent sur avec pour de du des le la les un une quel quelle
    quels quelles combien modèle modèles faut il besoin ai j carte utilisateurs mon ma mes et ou dans fonctionne
    lancer contexte contexto engine engines backend runtime inference serving better faster motor moteur they
    anyone happen happens node squeeze got buy buying kaufen comprar acheter 买 吗 能 可以 跑 运行 什么 哪些
    模型 需要 多少 显存 我 有 的 上 用 在 张 块 卡 显卡 怎么 够 够吗 部署 用户 并发 最大 上下文 多大 多长 得 了
    呢 和 哪个 引擎 框架 推理
    about old least recommend recommended recommendation suggest suggestion choose pick soporta
    soportan aguanta gráfica gráficas graphique graphiques wieviel wieviele zum zur dazu suffisent suffit-elle
    suffisent-elles quiero servir tener cuanto cuantos cuanta cuantas cuántas recomiendas recomienda recomendar
    choisir meilleur meilleure mejor mejores conseiller conseillez empfiehl empfehlen empfehlung bestes beste besten
    welch reicht's nimmt nehmen sollte soll actually currently somehow maybe perhaps really need needed needs
    compare versus maximal cache change whether ohne nur""".split()  # noqa: SIM905
)
