"""What one vLLM release does: `at(version)` is the only function that sees a version; all others get its facts."""

from functools import lru_cache

from oomph.facts import changes
from oomph.facts.changes import group
from oomph.facts.vllm.activation import Profile
from oomph.facts.vllm.attention import AttentionFacts
from oomph.facts.vllm.caches import BackendChoice, Blocks, CacheDtypes, DeepseekV4, LayerCaches, States
from oomph.facts.vllm.card_formats import CardFormats
from oomph.facts.vllm.command_line import CommandLine, Texts
from oomph.facts.vllm.create_weights import Creation
from oomph.facts.vllm.encoders import EncoderFacts
from oomph.facts.vllm.expert_kernels import ExpertKernels
from oomph.facts.vllm.flag_checks import FlagChecks
from oomph.facts.vllm.flag_values import Values
from oomph.facts.vllm.host import Queues
from oomph.facts.vllm.known import Support
from oomph.facts.vllm.kv import KvRules
from oomph.facts.vllm.linear_backends import LinearBackends, LinearKernels
from oomph.facts.vllm.lora import LoraFacts
from oomph.facts.vllm.outside import Budget, Outside
from oomph.facts.vllm.refusals import Refusals
from oomph.facts.vllm.repack import Repacking
from oomph.facts.vllm.running import AsyncScheduling, Capture, HybridManager, Limits, Runner
from oomph.facts.vllm.scheduler import SchedulerRules
from oomph.facts.vllm.serving import AfterStart
from oomph.facts.vllm.structure import Structure
from oomph.facts.vllm.vendors import Estimates
from oomph.facts.vllm.versions import parse
from oomph.facts.vllm.weights import Loading, Readings, WeightFacts


class Facts(changes.Facts):
    command_line = group(CommandLine)
    values = group(Values)
    limits = group(Limits)
    capture = group(Capture)
    async_scheduling = group(AsyncScheduling)
    hybrid_manager = group(HybridManager)
    runner = group(Runner)
    support = group(Support)
    refusals = group(Refusals)
    card_formats = group(CardFormats)
    checks = group(FlagChecks)
    states = group(States)
    blocks = group(Blocks)
    cache_dtypes = group(CacheDtypes)
    layer_caches = group(LayerCaches)
    deepseek_v4 = group(DeepseekV4)
    backend_choice = group(BackendChoice)
    attention = group(AttentionFacts)
    linear_kernels = group(LinearKernels)
    linear_backends = group(LinearBackends)
    readings = group(Readings)
    structure = group(Structure)
    weights = group(WeightFacts)
    creation = group(Creation)
    expert_kernels = group(ExpertKernels)
    repacking = group(Repacking)
    loading = group(Loading)
    lora = group(LoraFacts)
    profile = group(Profile)
    encoders = group(EncoderFacts)
    outside = group(Outside)
    budget = group(Budget)
    estimates = group(Estimates)
    texts = group(Texts)
    queues = group(Queues)
    kv = group(KvRules)
    scheduler = group(SchedulerRules)
    after_start = group(AfterStart)


@lru_cache(maxsize=64)
def at(version: str) -> Facts:
    return Facts.at(parse(version))
