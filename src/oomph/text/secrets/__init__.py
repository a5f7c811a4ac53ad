"""How a secret is known: by the words of its name, the place where it stands, and its value."""
