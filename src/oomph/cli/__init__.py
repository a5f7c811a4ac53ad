"""The command line: main.py finds the file of a command in commands/ and runs it."""
