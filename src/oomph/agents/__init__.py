"""What agents ask: the answers of the commands, small enough for a context window, over the Model Context Protocol.

answers.py   an answer as a few fields with units, each figure with what it rests on
server.py    the tools and the pages of the rules, with the official SDK; imported when `oomph mcp` is called
"""
