"""Questions in people's words ("can I run gpt-oss-120b on 2x 4090?") read as one of our commands.

A grammar over names that the catalogue and the table of cards know, and a few words of five languages (words.py); no
language model. What is understood is a command that can be read and changed; words that decided nothing are named.
"""

from oomph.commands.questions.understanding import Understood, begins_question, gpus_behind, is_question, understand

__all__ = ["Understood", "begins_question", "gpus_behind", "is_question", "understand"]
