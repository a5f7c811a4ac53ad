"""Models whose configuration is code of their own repository, by the model_type of config.json.

Neither Transformers 5.19 (CONFIG_MAPPING_NAMES) nor vLLM 0.32.0 (_CONFIG_REGISTRY) has them: without the flag vLLM
stops where it reads the configuration ("Failed to load the model config. If the model is a custom model not yet
available in the HuggingFace transformers library, consider setting `trust_remote_code=True`"). Seen with MiMo-7B on
0.32.0. A checkpoint of another layout under the same type starts without it.
"""

_TYPES = """aquila arctic baichuan bailing_moe deepseek exaone grok-1 hunyuan internlm internlm2 internlm3 internvl_chat
iquestcoder iquestloopcoder jais llama_bidirec mimo minicpm minicpmv minimax_m1 minimax_text_01 molmo nemotron-nas orion
phi3_v phi4mm skywork_chat telechat"""
REMOTE_TYPES = frozenset(_TYPES.split())
FLAG = "trust_remote_code"
