"""One file per command, imported only when it is called: `oomph.cli.commands.NAME.command` is a click command.

A command prints to stdout and returns; whatever it refuses it raises (errors.py), and `main` prints it. A command that
ends well with another exit code than 0 (a plan that does not fit) raises `SystemExit(code)`.
"""
