"""Ids of the hub without an owner: its oldest models had none, and the old names still lead to them.

huggingface.co/api/models/gpt2 answers with openai-community/gpt2 and so on: the owners were added in early 2024, and no
other id without an owner can be created.
"""

from typing import Final

_OWNERS: Final = {
    "openai-community": "gpt2 gpt2-medium gpt2-large gpt2-xl openai-gpt roberta-base-openai-detector "
    "roberta-large-openai-detector",
    "google-bert": "bert-base-uncased bert-base-cased bert-large-uncased bert-large-cased bert-base-chinese "
    "bert-base-german-cased bert-base-multilingual-cased bert-base-multilingual-uncased "
    "bert-large-uncased-whole-word-masking bert-large-cased-whole-word-masking "
    "bert-large-uncased-whole-word-masking-finetuned-squad bert-base-cased-finetuned-mrpc",
    "FacebookAI": "roberta-base roberta-large roberta-large-mnli xlm-roberta-base xlm-roberta-large "
    "xlm-roberta-large-finetuned-conll03-english xlm-mlm-en-2048 xlm-clm-ende-1024",
    "distilbert": "distilbert-base-uncased distilbert-base-cased distilbert-base-multilingual-cased distilgpt2 "
    "distilbert-base-uncased-finetuned-sst-2-english distilbert-base-cased-distilled-squad distilroberta-base",
    "google-t5": "t5-small t5-base t5-large t5-3b t5-11b",
    "albert": "albert-base-v1 albert-base-v2 albert-large-v1 albert-large-v2 albert-xlarge-v1 albert-xlarge-v2 "
    "albert-xxlarge-v1 albert-xxlarge-v2",
    "xlnet": "xlnet-base-cased xlnet-large-cased",
    "almanach": "camembert-base",
    "Salesforce": "ctrl",
    "transfo-xl": "transfo-xl-wt103",
}
WITHOUT_OWNER: Final = {name: f"{owner}/{name}" for owner, names in _OWNERS.items() for name in names.split()}
