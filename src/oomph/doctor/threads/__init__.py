"""A thread of posts: which of them hold logs, what each run was, what was tried, and what is settled."""
