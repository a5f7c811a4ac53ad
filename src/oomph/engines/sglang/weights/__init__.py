"""The weights of one rank: what its layers create, and what repacking them takes."""
