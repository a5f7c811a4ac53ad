"""What people see of each answer on a terminal: every module has render(answer, style, ...)."""
