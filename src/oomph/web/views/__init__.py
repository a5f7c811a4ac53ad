"""What people see of an answer, as HTML without a script: the page shows it, and `--html` writes the same to a file."""
